package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"sightline/frames"
	"sightline/frames/internal/bench"
	"sightline/frames/internal/bench/vp8enc"
	"sightline/frames/internal/vpx"
	"sightline/frames/internal/yuv"
)

const (
	keyEvery = 120 // frames of the stream: so that no key frame comes unasked where 0.3 or more a second are asked for
	length   = 5 * keyEvery
	interval = time.Second / 30
	mtu      = 1180
)

// stream is encoded video with key frames to jump to, in RTP payloads.
type stream struct {
	width, height int
	frames        []vp8enc.Frame
	payloads      [][][]byte
}

// encode plays a clip there and back for 20 s.
func encode(clip string, kbps, layers int) (*stream, error) {
	data, err := bench.Frames(clip)
	if err != nil {
		return nil, err
	}
	dec, err := vpx.NewVP8()
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	var pics []*yuv.Picture
	for _, d := range data {
		pic, err := dec.Decode(d)
		if err != nil {
			return nil, err
		}
		pics = append(pics, pic.Clone())
	}
	s := &stream{width: pics[0].Width, height: pics[0].Height}
	enc, err := vp8enc.New(vp8enc.Config{Width: s.width, Height: s.height, Kbps: kbps, Layers: layers})
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	tl0 := byte(0)
	for n := range length {
		at := n % max(2*(len(pics)-1), 1)
		if at >= len(pics) {
			at = 2*(len(pics)-1) - at
		}
		f, err := enc.Encode(pics[at], n%keyEvery == 0)
		if err != nil {
			return nil, err
		}
		if len(f.Data) == 0 {
			continue
		}
		if f.Layer == 0 {
			tl0++
		}
		s.frames = append(s.frames, f)
		s.payloads = append(s.payloads, payloads(f, layers, tl0))
	}
	return s, nil
}

// payloads are those of RFC 7741, without picture ids: the stream is sent round and round.
func payloads(f vp8enc.Frame, layers int, tl0 byte) (all [][]byte) {
	for at := 0; at < len(f.Data); at += mtu {
		d := []byte{0}
		if at == 0 {
			d[0] |= 0x10
		}
		if layers > 1 {
			layer := byte(f.Layer) << 6
			if f.Sync {
				layer |= 0x20
			}
			d = []byte{d[0] | 0x80, 0x60, tl0, layer}
		}
		all = append(all, append(d, f.Data[at:min(at+mtu, len(f.Data))]...))
	}
	return all
}

// sender sends a stream in real time. Asked for a key frame, it goes on at the next one, at most every 300 ms.
type sender struct {
	*stream
	asked atomic.Bool
}

func (s *sender) send(ctx context.Context, phase time.Duration, push func(p *rtp.Packet, at time.Time)) {
	timer := time.NewTimer(phase)
	defer timer.Stop()
	begun := time.Now().Add(phase)
	next, lastKey, sequence := 0, -100, uint16(0)
	for n := 0; ; n++ {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if n-lastKey >= 9 && s.asked.Swap(false) {
			for !s.frames[next].Key {
				next = (next + 1) % len(s.frames)
			}
		}
		if s.frames[next].Key {
			lastKey = n
		}
		for i, payload := range s.payloads[next] {
			push(&rtp.Packet{Payload: payload, Header: rtp.Header{
				Version: 2, SequenceNumber: sequence, Timestamp: uint32(3000 * n), Marker: i == len(s.payloads[next])-1}}, time.Now())
			sequence++
		}
		next = (next + 1) % len(s.frames)
		timer.Reset(time.Until(begun.Add(time.Duration(n+1) * interval)))
	}
}

// result is of one track and one second.
type result struct {
	cpu, images, decoded, plis float64
	memory                     float64 // C bytes, mean of samples
	answer                     time.Duration
	effect                     frames.Policy
	after                      int
}

// measure runs tracks for some seconds, and the same senders without tracks, whose cost is taken off.
func measure(s *stream, p frames.Policy, fps float64, seconds, tracks int) (r result, err error) {
	with, err := play(s, p, fps, seconds, tracks)
	if err != nil {
		return r, err
	}
	without, err := play(s, "", 0, seconds, tracks)
	with.cpu -= without.cpu
	return with, err
}

// play without a policy sends to nobody.
func play(s *stream, p frames.Policy, fps float64, seconds, tracks int) (r result, err error) {
	const warm = 8 * time.Second // key frames have been looked at
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	budget := frames.NewBudget(0)
	var wg sync.WaitGroup
	var all []*frames.Track
	var images atomic.Int64
	for i := range tracks {
		snd := &sender{stream: s}
		push := func(*rtp.Packet, time.Time) {}
		if p != "" {
			t, err := frames.NewTrack(frames.TrackConfig{Source: "camera", Policy: p, Budget: budget, RequestKeyFrame: func() { snd.asked.Store(true) }})
			if err != nil {
				return r, err
			}
			all = append(all, t)
			push = func(p *rtp.Packet, at time.Time) { t.Push(p, at) }
			wg.Go(func() { _ = t.Run(ctx) })
			if fps > 0 {
				sub := t.Subscribe(frames.Want{FPS: fps, Options: frames.DefaultRealtimeEncodeOptions()})
				wg.Go(func() { count(ctx, sub, &images) })
			}
		}
		wg.Go(func() { snd.send(ctx, time.Duration(i)*interval/time.Duration(tracks), push) })
	}
	time.Sleep(warm)
	sum := func() (s frames.TrackStats) {
		for _, t := range all {
			st := t.Stats()
			s.Decoded += st.Decoded
			s.PLIs += st.PLIs
			s.CBytes += st.CBytes
		}
		return s
	}
	before, taken, begin, cpu := sum(), images.Load(), time.Now(), bench.ProcessCPU()
	samples := 0
	for time.Since(begin) < time.Duration(seconds)*time.Second {
		time.Sleep(97 * time.Millisecond)
		samples++
		r.memory += float64(sum().CBytes)
	}
	after, spent := sum(), bench.ProcessCPU()-cpu
	each := time.Since(begin).Seconds() * float64(tracks)
	r.cpu, r.images = spent/each, float64(images.Load()-taken)/each
	r.decoded, r.plis = float64(after.Decoded-before.Decoded)/each, float64(after.PLIs-before.PLIs)/each
	r.memory = (r.memory/float64(samples) + float64(budget.PooledBytes())) / float64(tracks)
	if len(all) > 0 {
		st := all[0].Stats()
		r.effect, r.after, r.answer = st.InEffect, st.AfterKey, st.PLIAnswerTime
		if d := st.FrameDrops; fps > 0 && d.Total() > 0 {
			fmt.Fprintf(os.Stderr, "%s: the machine is too busy, frames were dropped: %+v\n", p, d)
		}
	}
	cancel()
	wg.Wait()
	return r, err
}

func count(ctx context.Context, sub *frames.Subscription, images *atomic.Int64) {
	defer sub.Close()
	for {
		select {
		case <-sub.C():
			if _, _, ok := sub.Take(); ok {
				images.Add(1)
			}
		case <-ctx.Done():
			return
		}
	}
}
