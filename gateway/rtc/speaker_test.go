package rtc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

func directionOf(m *sdp.MediaDescription) string {
	for _, a := range m.Attributes {
		if isDirection(a.Key) {
			return a.Key
		}
	}
	return ""
}

// voiceOf is the direction of the section of an answer in which we send. Such a section says of what: one SSRC, one
// stream.
func voiceOf(t *testing.T, answer string) (voice string) {
	t.Helper()
	var d sdp.SessionDescription
	if err := d.UnmarshalString(answer); err != nil {
		t.Fatal(err)
	}
	for i, m := range d.MediaDescriptions {
		if m.MediaName.Media == "application" {
			continue
		}
		_, ssrc := m.Attribute("ssrc")
		_, msid := m.Attribute("msid")
		direction := directionOf(m)
		sends := direction == sdp.AttrKeySendRecv || direction == sdp.AttrKeySendOnly
		if sends != ssrc || sends != msid || sends && (m.MediaName.Media != "audio" || voice != "") {
			t.Errorf("section %d (%s): %s, ssrc %v, msid %v, after %q", i, m.MediaName.Media, direction, ssrc, msid, voice)
		}
		if sends {
			voice = direction
		}
	}
	return voice
}

// speak sends numbered packets through the speaker every 5 ms until the test ends, as often as it takes them.
func speak(t *testing.T, write func(*rtp.Packet) error) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		start := time.Now()
		p := &rtp.Packet{Header: rtp.Header{Version: 2, SSRC: 7, PayloadType: 7, SequenceNumber: 60000}, Payload: []byte{31 << 3, 1, 2, 3}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p.Timestamp = uint32(time.Since(start) * 48 / time.Millisecond)
			if err := write(p); err == nil {
				p.SequenceNumber++
			} else if !errors.Is(err, ErrNotSending) {
				t.Errorf("write: %v", err)
			}
		}
	})
}

func TestAPublisherThatTakesSoundHearsTheSpeaker(t *testing.T) {
	e := newEngine(t, nil)
	p, s := newPublisher(t, publisherOptions{hears: true}), &sink{}
	peer, answer, err := e.Accept(t.Context(), p.offer(nil), s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	write, ok := peer.Speaker()
	if !ok {
		t.Fatal("no speaker")
	}
	if err := write(&rtp.Packet{Header: rtp.Header{Version: 2}, Payload: []byte{1}}); !errors.Is(err, ErrNotSending) {
		t.Fatalf("before the connection: %v", err)
	}
	told := make(chan float64, 100)
	peer.SpeakerReports(func(lost float64) {
		select {
		case told <- lost:
		default: // enough are there
		}
	})
	speak(t, write)
	p.accept(answer)
	p.send()
	waitFor(t, "packets both ways", func() bool { return s.count("microphone") > 10 && len(p.heard) > 20 })

	first := <-p.heard
	if first.SequenceNumber != 60000 || first.PayloadType != 111 || uint64(first.SSRC) != uint64(peer.Stats().Speaker.SSRC) {
		t.Errorf("the first packet is %v, stats %+v", first, peer.Stats().Speaker)
	}
	// A sender report tells the time of what is being sent: NTP and RTP run together (RFC 3550 §6.4.1).
	waitFor(t, "a sender report", func() bool { return len(p.reports) > 0 })
	sr := <-p.reports
	ntp := time.Unix(int64(sr.NTPTime>>32)-2208988800, int64((sr.NTPTime&0xffffffff)*1e9>>32))
	for len(p.heard) > 1 {
		<-p.heard
	}
	newest, now := <-p.heard, time.Now()
	off := now.Sub(ntp) - time.Duration(int32(newest.Timestamp-sr.RTPTime))*time.Second/48000
	if sr.SSRC != first.SSRC || sr.PacketCount == 0 || off.Abs() > 2*time.Second { // a wrong epoch or rate is further off, a busy machine is not
		t.Errorf("sender report %+v, %v off", sr, off)
	}
	t.Logf("sender report and packets %v apart", off)

	// An ICE restart changes nothing of it.
	for range 3 {
		offer := p.offer(&webrtc.OfferOptions{ICERestart: true})
		frag, err := peer.Restart(t.Context(), asFragment(offer))
		if err != nil {
			t.Fatal(err)
		}
		p.accept(restartedAnswer(p.pc.CurrentRemoteDescription().SDP, frag))
		before := s.count("microphone")
		waitFor(t, "packets after the restart", func() bool { return s.count("microphone") > before+20 })
		for len(p.heard) > 0 {
			<-p.heard
		}
		if packet := <-p.heard; packet.SSRC != first.SSRC {
			t.Errorf("SSRC %d after a restart, was %d", packet.SSRC, first.SSRC)
		}
	}
	waitFor(t, "a report of the publisher", func() bool { return len(told) > 0 })
	if lost := <-told; lost < 0 || lost > 1 {
		t.Errorf("told of %v lost", lost)
	}
	if st := peer.Stats().Speaker; !st.Open || st.Packets == 0 || st.Bytes != 4*st.Packets {
		t.Errorf("%+v", st)
	}

	peer.Close()
	if err := write(first); !errors.Is(err, ErrNotSending) {
		t.Errorf("after the end: %v", err)
	}
}

func TestTheSpeakerUsesThePayloadTypeOfTheOffer(t *testing.T) {
	e := newEngine(t, nil)
	p := newPublisher(t, publisherOptions{hears: true, firefox: true})
	peer, _ := publish(t, e, p, "microphone")
	write, ok := peer.Speaker()
	if !ok {
		t.Fatal("no speaker")
	}
	speak(t, write)
	waitFor(t, "a packet", func() bool { return len(p.heard) > 0 })
	if packet := <-p.heard; packet.PayloadType != 109 {
		t.Errorf("payload type %d, want Firefox' 109", packet.PayloadType)
	}
}

func TestAPublisherThatOnlySendsHearsNothing(t *testing.T) {
	e := newEngine(t, nil)
	peer, _ := publish(t, e, newPublisher(t, publisherOptions{audio: true}), "microphone")
	if write, ok := peer.Speaker(); ok || write != nil || peer.Stats().Speaker != (SpeakerStats{}) {
		t.Errorf("speaker %v, %+v", ok, peer.Stats().Speaker)
	}
}

// Of several sections that take sound the person's own is answered so, and video never.
func TestOneSectionAtMostCarriesTheVoice(t *testing.T) {
	_, video, _ := strings.Cut(minimal, "m=video")
	section := func(mid, attributes string) string {
		return strings.NewReplacer("a=mid:0\r\na=sendonly", "a=mid:"+mid+"\r\n"+attributes, " 96\r\n", " 111\r\n", "a=rtpmap:96 VP8/90000", "a=rtpmap:111 opus/48000/2").Replace("m=audio" + video)
	}
	for name, c := range map[string]struct{ first, second, camera, want string }{
		"both ways, twice":      {"a=sendrecv", "a=sendrecv", "a=sendonly", "sendrecv recvonly recvonly"},
		"slides first":          {"a=content:slides\r\na=sendrecv", "a=sendrecv", "a=sendonly", "recvonly sendrecv recvonly"},
		"only the second hears": {"a=sendonly", "a=recvonly", "a=sendonly", "recvonly sendonly recvonly"},
		"inactive":              {"a=inactive", "a=sendonly", "a=sendonly", "inactive recvonly recvonly"},
		"video that hears":      {"a=sendonly", "a=inactive", "a=sendrecv", "recvonly inactive recvonly"},
	} {
		t.Run(name, func(t *testing.T) {
			offer := strings.Replace(minimal, "BUNDLE 0", "BUNDLE 1 2 0", 1)
			offer = strings.Replace(offer, "m=video", section("1", c.first)+section("2", c.second)+"m=video", 1)
			offer = strings.Replace(offer, "a=mid:0\r\na=sendonly", "a=mid:0\r\n"+c.camera, 1)
			e := newEngine(t, nil)
			p, answer, err := e.Accept(t.Context(), offer, Handlers{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			checkAnswer(t, offer, answer, "audio audio video", "1 2 0", "active")
			var d sdp.SessionDescription
			if err := d.UnmarshalString(answer); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range d.MediaDescriptions {
				got = append(got, directionOf(m))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("answered %q, want %q", got, c.want)
			}
			voiceOf(t, answer)
		})
	}
}

func TestNoAllocationOfOursPerPacketSpoken(t *testing.T) {
	s := &speaker{connected: func() bool { return true }, stream: discard{}}
	p := &rtp.Packet{Header: rtp.Header{Version: 2}, Payload: make([]byte, 80)}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.write(p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type discard struct{}

func (discard) WriteRTP(_ *rtp.Header, payload []byte) (int, error) { return len(payload), nil }
func (discard) Write(b []byte) (int, error)                         { return len(b), nil }
