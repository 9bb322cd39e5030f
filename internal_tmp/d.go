package d

import (
	_ "github.com/chromedp/chromedp"
	_ "github.com/google/uuid"
	_ "github.com/gorilla/websocket"
	_ "github.com/pion/ice/v4"
	_ "github.com/pion/interceptor"
	_ "github.com/pion/logging"
	_ "github.com/pion/mediadevices/pkg/codec/vpx"
	_ "github.com/pion/mediadevices/pkg/driver/videotest"
	_ "github.com/pion/rtcp"
	_ "github.com/pion/rtp"
	_ "github.com/pion/sdp/v3"
	_ "github.com/pion/stun/v4"

	_ "github.com/pion/webrtc/v4"
	_ "github.com/pixiv/go-libjpeg/jpeg"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "golang.org/x/image/draw"
	_ "github.com/goccy/go-yaml"
	_ "go.uber.org/goleak"
	_ "pgregory.net/rapid"
	_ "golang.org/x/time/rate"
)
