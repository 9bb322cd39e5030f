package sound

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"sightline/gateway/sound/vad"
)

// connect gives a track of a publisher and, once something came, the other end of it.
func connect(t *testing.T) (*webrtc.TrackLocalStaticRTP, <-chan *webrtc.TrackRemote) {
	t.Helper()
	var settings webrtc.SettingEngine
	settings.SetIncludeLoopbackCandidate(true)
	settings.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	api := webrtc.NewAPI(webrtc.WithSettingEngine(settings))
	peer := func() *webrtc.PeerConnection {
		pc, err := api.NewPeerConnection(webrtc.Configuration{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pc.Close() })
		return pc
	}
	sender, receiver := peer(), peer()
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: clockRate, Channels: 2}, "voice", "caller")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sender.AddTrack(track); err != nil {
		t.Fatal(err)
	}
	remote, connected := make(chan *webrtc.TrackRemote, 1), make(chan struct{})
	receiver.OnTrack(func(r *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { remote <- r })
	sender.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		if s == webrtc.PeerConnectionStateConnected {
			close(connected)
		}
	})
	describe(t, sender, receiver)
	select {
	case <-connected:
	case <-time.After(20 * time.Second):
		t.Fatal("not connected after 20 s")
	}
	return track, remote
}

func describe(t *testing.T, a, b *webrtc.PeerConnection) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	offer, err := a.CreateOffer(nil)
	must(err)
	gathered := webrtc.GatheringCompletePromise(a)
	must(a.SetLocalDescription(offer))
	<-gathered
	must(b.SetRemoteDescription(*a.LocalDescription()))
	answer, err := b.CreateAnswer(nil)
	must(err)
	gathered = webrtc.GatheringCompletePromise(b)
	must(b.SetLocalDescription(answer))
	<-gathered
	must(a.SetRemoteDescription(*b.LocalDescription()))
}

// sendBadly sends packets on the clock, some of them not, some late and out of order; it gives the time of the first.
func sendBadly(t *testing.T, track *webrtc.TrackLocalStaticRTP, packets []*rtp.Packet) time.Time {
	t.Helper()
	random := rand.New(rand.NewPCG(13, 14))
	start := time.Now()
	way := make([]onTheWay, 0, len(packets))
	for i, p := range packets {
		jitter := time.Duration(random.IntN(35)) * time.Millisecond
		if i == 0 || random.IntN(20) != 0 {
			way = append(way, onTheWay{p, start.Add(time.Duration(i)*FrameTime + jitter)})
		}
	}
	slices.SortStableFunc(way, func(a, b onTheWay) int { return a.at.Compare(b.at) })
	for _, w := range way {
		time.Sleep(time.Until(w.at)) // the clock of the sender
		if err := track.WriteRTP(w.packet); err != nil {
			t.Error(err)
		}
	}
	return start
}

// A real publisher over a bad network, in real time: what comes out stays with the wall clock, and speech is found where it is.
func TestIngressFromAPionPublisher(t *testing.T) {
	t.Parallel()
	track, remote := connect(t)
	model, err := vad.Load()
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu       sync.Mutex
		pcm      []int16
		came     []time.Time // of each frame
		held     []time.Duration
		events   []heard
		listener = NewListener(model, TurnPolicy{})
	)
	in, _ := newIngress(t, IngressConfig{Rates: []int{ListenerRate}, Frame: func(_ int, frame []int16, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		pcm, came, held = append(pcm, frame...), append(came, at), append(held, now.Sub(at))
		for _, e := range listener.Hear(frame, at) {
			events = append(events, heard{e, now})
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := in.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	go func() { // ends when the track does, with the connection
		r := <-remote
		for {
			p, _, err := r.ReadRTP()
			if err != nil {
				return
			}
			in.Push(p, time.Now())
		}
	}()
	clip := jfk(t)
	start := sendBadly(t, track, coded(t, clip, ListenerRate))
	time.Sleep(time.Second) // the clock: the last turn ends
	cancel()
	tasks.Wait()

	c := in.Counts()
	slices.Sort(held)
	t.Logf("%+v; held for %v, p99 %v", c, held[len(held)/2], held[len(held)*99/100])
	if c.Played < 490 || c.Lost < 10 || c.Lost > 50 {
		t.Errorf("%+v", c)
	}
	want, have := envelope(clip, ListenerRate), envelope(pcm, ListenerRate)
	least, most := time.Hour, -time.Hour
	first := slices.IndexFunc(came, func(at time.Time) bool { return at.After(start) })
	for i, phrase := range jfkPhrases {
		middle := int((phrase[0] + phrase[1]) / 2 / time.Millisecond)
		lag, like := lagOf(want, have[first*20:], middle, 600, 250)
		// The millisecond that sounds like the phrase's middle, and when it is said to have come in.
		place := first*20 + middle + lag
		late := came[place/20].Add(time.Duration(place%20) * time.Millisecond).Sub(start.Add(time.Duration(middle) * time.Millisecond))
		least, most = min(least, late), max(most, late)
		if like < 0.8 {
			t.Errorf("phrase %d is %.2f alike", i, like)
		}
		found := slices.ContainsFunc(events, func(e heard) bool {
			at := e.At.Sub(start)
			return e.Started && at < phrase[0]+20*time.Millisecond && at > phrase[0]-450*time.Millisecond
		})
		if !found {
			t.Errorf("the phrase at %v was not found: %+v", phrase[0], events)
		}
	}
	// Held longer or shorter, as the network (and this machine) is: the times that go with the sound stay true.
	t.Logf("the sound is said to come in %v to %v after it was sent", least, most)
	if most-least >= 20*time.Millisecond || least < -5*time.Millisecond || most > 40*time.Millisecond {
		t.Errorf("the sound is said to come in %v to %v after it was sent", least, most)
	}
	if len(events) == 0 || !events[len(events)-1].Final {
		t.Errorf("the last turn did not end: %+v", events)
	}
}
