package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"

	"sightline/frames"
	"sightline/frames/ivf"
)

// simulcaster sends clips as layers of one section, with the header extensions that Pion leaves to its user.
type simulcaster struct {
	pc     *webrtc.PeerConnection
	sender *webrtc.RTPSender
	tracks []*webrtc.TrackLocalStaticRTP
	clips  [][]ivf.Frame
	asked  []chan struct{}
}

func newSimulcaster(t *testing.T, pc *webrtc.PeerConnection, files ...string) *simulcaster {
	t.Helper()
	s := &simulcaster{pc: pc}
	for i, file := range files {
		b, err := os.ReadFile("../frames/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		_, clip, err := ivf.ReadAll(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "video", "caller", webrtc.WithRTPStreamID(string(rune('a'+i))))
		if err != nil {
			t.Fatal(err)
		}
		s.tracks, s.clips, s.asked = append(s.tracks, track), append(s.clips, clip), append(s.asked, make(chan struct{}, 1))
		if i == 0 {
			tr, err := pc.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
			if err != nil {
				t.Fatal(err)
			}
			s.sender = tr.Sender()
		} else if err := s.sender.AddEncoding(track); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// play sends every layer at 30/s until ctx ends; a layer that is asked begins its clip, which starts with a key frame, anew.
func (s *simulcaster) play(ctx context.Context) {
	parameters := s.sender.GetParameters()
	for i := range s.tracks {
		go s.readRTCP(i, parameters.Encodings[i].SSRC)
	}
	mid := s.pc.GetTransceivers()[0].Mid()
	tick := time.NewTicker(time.Second / 30)
	defer tick.Stop()
	next, seq := make([]int, len(s.tracks)), make([]uint16, len(s.tracks))
	for n := uint32(0); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i, track := range s.tracks {
			select {
			case <-s.asked[i]:
				next[i] = 0
			default:
			}
			parts := (&codecs.VP8Payloader{}).Payload(1100, s.clips[i][next[i]].Data)
			next[i] = (next[i] + 1) % len(s.clips[i])
			for k, part := range parts {
				p := &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: seq[i], Timestamp: 3000 * n, Marker: k == len(parts)-1}, Payload: part}
				seq[i]++
				for _, e := range parameters.HeaderExtensions {
					switch e.URI {
					case sdp.SDESMidURI:
						_ = p.SetExtension(uint8(e.ID), []byte(mid))
					case sdp.SDESRTPStreamIDURI:
						_ = p.SetExtension(uint8(e.ID), []byte(track.RID()))
					}
				}
				_ = track.WriteRTP(p) // fails when the call is over
			}
		}
	}
}

// readRTCP reads the feedback of one layer: requests name its SSRC.
func (s *simulcaster) readRTCP(i int, ssrc webrtc.SSRC) {
	for {
		packets, _, err := s.sender.ReadSimulcastRTCP(s.tracks[i].RID())
		if err != nil {
			return
		}
		for _, p := range packets {
			if pli, ok := p.(*rtcp.PictureLossIndication); ok && pli.MediaSSRC == uint32(ssrc) {
				select {
				case s.asked[i] <- struct{}{}:
				default:
				}
			}
		}
	}
}

// TestEmbedSimulcast: the layers of a foreign PeerConnection's section are one source, of which the one that is large enough is shown.
func TestEmbedSimulcast(t *testing.T) {
	g := startGateway(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	session, err := g.Session(ctx, "embedded")
	if err != nil {
		t.Fatal(err)
	}
	caller, ours := mustPeer(t, loopbackAPI(t)), mustPeer(t, loopbackAPI(t))
	ours.OnTrack(func(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
		if err := session.AddTrack(ours, track, receiver); err != nil {
			t.Error(err)
		}
	})
	sender := newSimulcaster(t, caller, "face480_90.vp8.ivf", "odd641.vp8.ivf") // 640 and 641 wide
	connect(t, caller, ours)
	go sender.play(ctx)

	type state struct {
		Sources []struct {
			Name   string
			Width  int
			Layers []struct {
				RID     string
				Used    bool
				Width   int
				Packets uint64
			}
		}
	}
	look := func() (s state) {
		_, body, _ := g.do("GET", "/v1/sessions/embedded", "")
		if err := json.Unmarshal(body, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	eventually(t, func() string {
		s := look()
		if len(s.Sources) == 1 && s.Sources[0].Name == "camera" && len(s.Sources[0].Layers) == 2 && s.Sources[0].Layers[0].Width > 0 && s.Sources[0].Layers[1].Width > 0 {
			return ""
		}
		return fmt.Sprintf("sources %+v, want one of two layers", s.Sources)
	})
	for _, c := range []struct{ wanted, used int }{{640, 640}, {641, 641}} {
		options := frames.DefaultRealtimeEncodeOptions()
		options.Resize.Width, options.Resize.Height = c.wanted, 480
		eventually(t, func() string {
			if _, err := session.Image(ctx, "camera", options, time.Second, time.Second); err != nil {
				return err.Error()
			}
			s := look()
			for _, l := range s.Sources[0].Layers {
				if l.Used && l.Width == c.used && s.Sources[0].Width == c.used {
					return ""
				}
			}
			return fmt.Sprintf("%d is wanted: %+v", c.wanted, s.Sources)
		})
	}
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		session.mu.Lock()
		defer session.mu.Unlock()
		if session.publisher != nil {
			return "the session still has a publisher although its PeerConnection is closed"
		}
		return ""
	})
}
