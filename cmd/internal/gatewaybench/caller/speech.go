package caller

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound"
	"sightline/switcher"
)

// FrameTime is the length of one packet of Speech.
const FrameTime = 20 * time.Millisecond

// Speech is coded sound, one payload for each FrameTime.
type Speech [][]byte

// Code codes PCM16 mono of a rate in Hz, 30 s at most, as the gateway codes its own; that takes as long as the sound lasts.
func Code(ctx context.Context, rate int, pcm []int16) (Speech, error) {
	egress, err := sound.NewEgress(sound.EgressConfig{})
	if err != nil {
		return nil, err
	}
	frames := (len(pcm)*50 + rate - 1) / rate
	done := make(chan Speech, 1)
	var coded Speech
	egress.SetWriter(func(p *rtp.Packet) error { // one at a time, with a lock held
		coded = append(coded, bytes.Clone(p.Payload))
		if len(coded) == frames {
			done <- slices.Clone(coded)
		}
		return nil
	})
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- egress.Run(run) }()
	defer func() { stop(); <-ended }()
	turn := switcher.TurnID{Epoch: 1, Item: "speech"}
	if err := egress.Play(ctx, turn, rate, pcm); err != nil {
		return nil, err
	}
	egress.EndTurn(turn)
	select {
	case all := <-done:
		return all, nil
	case <-time.After(2*time.Duration(frames)*FrameTime + 10*time.Second):
		return nil, fmt.Errorf("coding %d frames of sound took too long", frames)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ReadWAV reads PCM16 mono.
func ReadWAV(name string) (rate int, pcm []int16, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, nil, err
	}
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return 0, nil, fmt.Errorf("%s is no WAVE file", name)
	}
	for b = b[12:]; len(b) >= 8; {
		id, size := string(b[:4]), int(binary.LittleEndian.Uint32(b[4:8]))
		b = b[8:]
		size = min(size, len(b))
		switch {
		case id == "fmt " && size >= 16:
			if binary.LittleEndian.Uint16(b) != 1 || binary.LittleEndian.Uint16(b[2:]) != 1 || binary.LittleEndian.Uint16(b[14:]) != 16 {
				return 0, nil, fmt.Errorf("%s: PCM16 of one channel is wanted", name)
			}
			rate = int(binary.LittleEndian.Uint32(b[4:]))
		case id == "data" && rate > 0:
			pcm = make([]int16, size/2)
			_, err := binary.Decode(b, binary.LittleEndian, pcm)
			return rate, pcm, err
		}
		b = b[min(size+size%2, len(b)):]
	}
	return 0, nil, errors.New(name + ": a WAVE file without sound")
}
