package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/rtc"
	"sightline/gateway/sound"
)

// micRate is the rate at which speech is looked for, in Hz.
const micRate = 16000

// microphone is the caller's sound on its way in: one audio track of the publisher. Its packets are read from the beginning;
// they are decoded only when the session has a voice.
type microphone struct {
	session *Session
	payload uint8
	ctx     context.Context // of the track; carried because the ingress may begin at any time in it
	running sync.WaitGroup

	last atomic.Int64 // when the newest packet came, Unix nanoseconds

	mu      sync.Mutex
	ingress *sound.Ingress
}

// silentAfter is how long a microphone may send nothing and count as live: browsers send something at least every 400 ms.
const silentAfter = 2 * time.Second

func (m *microphone) live(now time.Time) bool {
	return m != nil && now.Sub(time.Unix(0, m.last.Load())) < silentAfter
}

// addMicrophone takes an audio track in. The first of a publisher is the microphone; others are drained.
func (s *Session) addMicrophone(p *publication, in *rtc.InTrack) {
	s.mu.Lock()
	if s.publisher != p || p.microphone != nil || !s.beginLocked() {
		s.mu.Unlock()
		s.drainTrack(p, in)
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends with the track
	m := &microphone{session: s, payload: in.PayloadType, ctx: ctx}
	p.microphone, s.microphone = m, m
	v := s.voice
	s.mu.Unlock()
	if v == nil && s.talksWith().First != "" {
		if made, err := s.speak(); err == nil {
			v = made
		}
	}
	if v != nil {
		m.serve(v)
	}
	go func() {
		defer s.tasks.Done()
		defer p.trackEnded()
		m.read(in)
		cancel()
		m.running.Wait()
		s.mu.Lock()
		if s.microphone == m {
			s.microphone = nil
		}
		s.mu.Unlock()
	}()
}

func (m *microphone) read(in *rtc.InTrack) {
	for {
		packet, err := in.ReadRTP()
		if err != nil {
			return
		}
		m.push(packet)
	}
}

func (m *microphone) push(packet *rtp.Packet) {
	now := time.Now()
	m.last.Store(now.UnixNano())
	m.mu.Lock()
	ingress := m.ingress
	m.mu.Unlock()
	if ingress != nil {
		ingress.Push(packet, now)
	}
}

// serve decodes from now on, for v.
func (m *microphone) serve(v *voice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ingress != nil || m.ctx.Err() != nil {
		return
	}
	ear := newEar(v)
	ingress, err := sound.NewIngress(sound.IngressConfig{
		PayloadType: m.payload, Rates: v.soundRates(), Frame: ear.frame, Log: m.session.logger,
	})
	if err != nil {
		m.session.logger.Error("the microphone cannot be used", keyError, err)
		return
	}
	m.ingress = ingress
	v.micBegins(ingress)
	m.running.Go(func() {
		defer v.micEnds(ingress)
		defer ear.close()
		if err := ingress.Run(m.ctx); err != nil {
			m.session.logger.Error("the microphone ended", keyError, err)
		}
	})
}

// retune decodes at what is wanted now.
func (m *microphone) retune(rates []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ingress != nil {
		_ = m.ingress.SetRates(rates...) // checked where they were wished for
	}
}

// soundRates are the rates that legs, agents and the speech detector want now.
func (v *voice) soundRates() []int {
	v.mu.Lock()
	rates := append([]int{micRate}, v.rates...)
	v.mu.Unlock()
	for _, a := range v.session.allAgents() {
		if r := a.soundRate(); r > 0 {
			rates = append(rates, r)
		}
	}
	slices.Sort(rates)
	return slices.Compact(rates)
}

// ratesChanged is told by the switcher, and must not wait.
func (v *voice) ratesChanged(rates []int) {
	v.mu.Lock()
	v.rates = slices.Clone(rates)
	v.mu.Unlock()
	v.retune()
}

func (v *voice) retune() {
	v.session.mu.Lock()
	m := v.session.microphone
	v.session.mu.Unlock()
	if m != nil {
		m.retune(v.soundRates())
	}
}

// soundTime is when a sample came in, since the session's sound began.
func (s *Session) soundTime(at time.Time) time.Duration {
	v := s.currentVoice()
	if v == nil {
		return 0
	}
	return max(at.Sub(v.began), 0)
}
