package rtc

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

func TestAnswersBoundTheBandwidthOfVideo(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.MaxVideoBPS = 2_000_000 })
	for _, c := range []struct {
		offer string
		tias  uint64
	}{{"chromium-av", 2_000_000}, {"chromium-simulcast", 3_000_000}} {
		p, answer, err := e.Accept(t.Context(), readOffer(t, c.offer), Handlers{})
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		var d sdp.SessionDescription // its parser wants the lines in their order (RFC 8866 §5)
		if err := d.UnmarshalString(answer); err != nil {
			t.Fatal(err)
		}
		for _, m := range d.MediaDescriptions {
			if m.MediaName.Media != "video" {
				if len(m.Bandwidth) != 0 {
					t.Errorf("%s: %s has %v", c.offer, m.MediaName.Media, m.Bandwidth)
				}
				continue
			}
			as, tias := -1, -1
			for i, b := range m.Bandwidth {
				switch {
				case b.Type == "TIAS" && b.Bandwidth == c.tias:
					tias = i
				case b.Type == "AS" && b.Bandwidth > c.tias/1000 && b.Bandwidth < c.tias/900: // in kbit/s, packets' headers included
					as = i
				}
			}
			if as != 0 || tias != 1 || len(m.Bandwidth) != 2 {
				t.Errorf("%s: %v, want AS and then TIAS:%d", c.offer, m.Bandwidth, c.tias)
			}
		}
	}
}

// TestAPublisherHearsWhatIsWanted: by REMB, which names its video, and on the data channel that it has opened, once for each change.
func TestAPublisherHearsWhatIsWanted(t *testing.T) {
	e := newEngine(t, nil)
	pub := newPublisher(t, publisherOptions{audio: true})
	var told atomic.Pointer[[]string]
	told.Store(&[]string{})
	channel, err := pub.pc.CreateDataChannel(SenderChannel, nil)
	if err != nil {
		t.Fatal(err)
	}
	channel.OnMessage(func(m webrtc.DataChannelMessage) {
		all := append(slices.Clone(*told.Load()), string(m.Data))
		told.Store(&all)
	})
	s := &sink{}
	p, answer, err := e.Accept(t.Context(), pub.offer(nil), s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first := Ask{BitrateBPS: 500_000, Sources: []SourceAsk{{Name: "camera", MID: "1", BitrateBPS: 436_000, FPS: 10, Width: 320, Height: 240}}}
	p.Ask(first) // before there is anybody to hear it
	pub.accept(answer)
	stop := pub.send()
	defer stop()
	waitFor(t, "the wish on the data channel", func() bool { return len(*told.Load()) == 1 })
	var message struct {
		Type    string
		Sources []SourceAsk
	}
	if err := json.Unmarshal([]byte((*told.Load())[0]), &message); err != nil || message.Type != "sender" || !slices.Equal(message.Sources, first.Sources) {
		t.Errorf("told %s", (*told.Load())[0])
	}
	waitFor(t, "video", func() bool { return s.count("camera") > 0 })
	waitFor(t, "a REMB", func() bool { p.Ask(first); return pub.remb.Load() != nil })
	remb := pub.remb.Load()
	video := slices.IndexFunc(p.Stats().Tracks, func(s TrackStats) bool { return s.Kind == "video" })
	if math.Abs(float64(remb.Bitrate)-500_000) > 5000 || !slices.Equal(remb.SSRCs, []uint32{p.Stats().Tracks[video].SSRC}) || remb.SenderSSRC == 0 {
		t.Errorf("REMB %+v", remb)
	}
	second := first
	second.Sources = []SourceAsk{{Name: "camera", MID: "1", BitrateBPS: 100_000, FPS: 5}}
	p.Ask(second)
	waitFor(t, "the next wish", func() bool { return len(*told.Load()) == 2 })
	if n := len(*told.Load()); n != 2 || !strings.Contains((*told.Load())[1], `"max_bitrate_bps":100000`) {
		t.Errorf("told %q", *told.Load())
	}
}
