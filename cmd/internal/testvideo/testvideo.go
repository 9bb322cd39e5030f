// Package testvideo makes synthetic video with the mediadevices videotest driver and VP8 encoder: once, into memory, for any number of publishers; it shows colour bars, a grey ramp and noise. H264 is in a package of its own, since that encoder's library does not go with the gateway's decoder in one program.
package testvideo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pion/mediadevices/pkg/codec"
	"github.com/pion/mediadevices/pkg/codec/vpx"
	"github.com/pion/mediadevices/pkg/driver"
	_ "github.com/pion/mediadevices/pkg/driver/videotest" // registers the driver
	"github.com/pion/mediadevices/pkg/frame"
	"github.com/pion/mediadevices/pkg/io/video"
	"github.com/pion/mediadevices/pkg/prop"

	"sightline/cmd/internal/whipclient"
)

// Config says what is made. Zero fields mean the defaults.
type Config struct {
	Width, Height int           // pixels, even; 640×480
	FPS           float64       // 30
	Length        time.Duration // 2 s
	KeyEvery      time.Duration // 1 s: a publisher that is asked for a key frame jumps to the next one
	Bitrate       int           // bits a second; 1,000,000
}

// speed: the driver ticks in real time and is run this much faster, so that making the clip takes well under a second.
const speed = 6

// Make encodes a clip of VP8.
func Make(ctx context.Context, cfg Config) (*whipclient.Clip, error) {
	cfg = cfg.WithDefaults()
	frames, err := Encode(ctx, cfg, func(pictures video.Reader, media prop.Media) (codec.ReadCloser, error) {
		params, err := vpx.NewVP8Params()
		if err != nil {
			return nil, err
		}
		params.BitRate = cfg.Bitrate
		params.KeyFrameInterval = int(cfg.KeyEvery.Seconds() * cfg.FPS)
		return params.BuildVideoEncoder(pictures, media)
	})
	if err != nil {
		return nil, err
	}
	return whipclient.NewClip(fmt.Sprintf("synthetic VP8 %d×%d", cfg.Width, cfg.Height), cfg.FPS, frames)
}

// Encode has the driver's pictures encoded by what build makes. One at a time: the driver is one for the process.
func Encode(ctx context.Context, cfg Config, build func(video.Reader, prop.Media) (codec.ReadCloser, error)) ([][]byte, error) {
	if cfg.Width%2 != 0 || cfg.Height%2 != 0 || cfg.Width < 16 || cfg.Height < 16 || cfg.Width > 4096 || cfg.Height > 4096 {
		return nil, fmt.Errorf("%d×%d: both sides must be even, 16 to 4096", cfg.Width, cfg.Height)
	}
	// The camera is a process-wide thing in mediadevices; the driver itself takes any size.
	cameras := driver.GetManager().Query(func(d driver.Driver) bool { return d.Info().Label == "VideoTest" })
	if len(cameras) == 0 {
		return nil, errors.New("the videotest driver is not there")
	}
	camera := cameras[0]
	if err := camera.Open(); err != nil {
		return nil, fmt.Errorf("open the videotest driver: %w", err)
	}
	defer camera.Close()
	recorder, ok := camera.(driver.VideoRecorder)
	if !ok {
		return nil, errors.New("the videotest driver does not record video")
	}
	media := prop.Media{Video: prop.Video{Width: cfg.Width, Height: cfg.Height, FrameRate: float32(cfg.FPS * speed), FrameFormat: frame.FormatI420}}
	pictures, err := recorder.VideoRecord(media)
	if err != nil {
		return nil, fmt.Errorf("videotest driver: %w", err)
	}
	media.FrameRate = float32(cfg.FPS) // what the encoder is to plan for
	encoder, err := build(pictures, media)
	if err != nil {
		return nil, fmt.Errorf("encoder: %w", err)
	}
	defer encoder.Close()

	var frames [][]byte
	for n := int(cfg.Length.Seconds() * cfg.FPS); len(frames) < n; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, release, err := encoder.Read()
		if err != nil {
			return nil, fmt.Errorf("encoder: %w", err)
		}
		if len(data) > 0 { // the encoder may leave a picture out
			frames = append(frames, append([]byte(nil), data...))
		}
		release()
	}
	return frames, nil
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Width == 0 {
		c.Width = 640
	}
	if c.Height == 0 {
		c.Height = 480
	}
	if c.FPS == 0 {
		c.FPS = 30
	}
	if c.Length == 0 {
		c.Length = 2 * time.Second
	}
	if c.KeyEvery == 0 {
		c.KeyEvery = time.Second
	}
	if c.Bitrate == 0 {
		c.Bitrate = 1_000_000
	}
	return c
}
