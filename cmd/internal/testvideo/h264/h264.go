// Package h264 makes synthetic video as testvideo does, with the OpenH264 encoder of mediadevices. A program that imports it cannot also decode H264 as the gateway does: both bring a library of that name, in different versions.
package h264

import (
	"context"
	"fmt"

	"github.com/pion/mediadevices/pkg/codec"
	"github.com/pion/mediadevices/pkg/codec/openh264"
	"github.com/pion/mediadevices/pkg/io/video"
	"github.com/pion/mediadevices/pkg/prop"

	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
)

// Make encodes a clip of H264.
func Make(ctx context.Context, cfg testvideo.Config) (*whipclient.Clip, error) {
	cfg = cfg.WithDefaults()
	frames, err := testvideo.Encode(ctx, cfg, func(pictures video.Reader, media prop.Media) (codec.ReadCloser, error) {
		params, err := openh264.NewParams()
		if err != nil {
			return nil, err
		}
		params.BitRate = cfg.Bitrate
		params.IntraPeriod = uint(cfg.KeyEvery.Seconds() * cfg.FPS)
		params.EnableFrameSkip = false
		return params.BuildVideoEncoder(pictures, media)
	})
	if err != nil {
		return nil, err
	}
	return whipclient.NewH264Clip(fmt.Sprintf("synthetic H264 %d×%d", cfg.Width, cfg.Height), cfg.FPS, frames)
}
