package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"sightline/switcher/cascade"
)

// Bounds and defaults of a Voice.
const (
	DefaultVoice = "slt"
	MaxSpoken    = 4 << 10 // bytes of a text; the rest is not spoken

	voiceRate    = 16000
	longestPiece = 160              // bytes that one process speaks, about 10 s
	speakTimeout = 10 * time.Second // of one piece, which takes about 0.1 s
	mostSound    = 2 << 20          // bytes of one piece: a minute
	step         = voiceRate / 10   // samples given at once
)

// VoiceConfig of flite.
type VoiceConfig struct {
	Program string // "" = flite
	Voice   string // slt (default), rms, awb, kal16
	Most    int    // processes at once, 0 = 4; more wait
}

// Voice is flite. The text that it speaks can be seen in the machine's list of processes while it is being made into sound.
type Voice struct {
	cfg   VoiceConfig
	slots chan struct{}
}

// NewVoice makes a Voice; nothing is started.
func NewVoice(cfg VoiceConfig) (*Voice, error) {
	set(&cfg.Program, "flite")
	set(&cfg.Voice, DefaultVoice)
	set(&cfg.Most, 4)
	switch cfg.Voice {
	case "slt", "rms", "awb", "kal16":
	default: // flite takes an unknown name for a file or an address
		return nil, fmt.Errorf("voice %q: allowed are slt, rms, awb and kal16", cfg.Voice)
	}
	return &Voice{cfg, make(chan struct{}, max(cfg.Most, 1))}, nil
}

// Name implements cascade.Voice, as Rate and Speak do.
func (v *Voice) Name() string { return "flite-" + v.cfg.Voice }

// Rate is the Hz of the PCM16 mono that it makes.
func (v *Voice) Rate() int { return voiceRate }

// Speak gives the sound of a text by pieces of at most 100 ms. A text with nothing to pronounce gives
// 20 ms of silence. While a piece is
// being played the next sentence is made.
func (v *Voice) Speak(ctx context.Context, text string, yield func(pcm []int16) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type made struct {
		pcm []int16
		err error
	}
	sounds := make(chan made) // the maker is one piece ahead
	finished := make(chan struct{})
	defer func() { cancel(); <-finished }()
	go func() {
		defer close(finished)
		defer close(sounds)
		pieces := speakable(text)
		if len(pieces) == 0 { // ":-)" is no failure of the voice
			select {
			case sounds <- made{pcm: make([]int16, margin)}:
			case <-ctx.Done():
			}
		}
		for _, piece := range pieces {
			pcm, err := v.make(ctx, piece)
			select {
			case sounds <- made{pcm, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for s := range sounds {
		if s.err != nil {
			return s.err
		}
		for len(s.pcm) > 0 {
			n := min(step, len(s.pcm))
			if err := yield(s.pcm[:n:n]); err != nil {
				return err
			}
			s.pcm = s.pcm[n:]
		}
	}
	return ctx.Err()
}

// make runs flite for one piece. It is given by -t: with -f, flite writes each sentence by opening its output anew, which
// hangs on a pipe; and -t takes what follows as it is, dashes too.
func (v *Voice) make(ctx context.Context, piece string) ([]int16, error) {
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	wav, err := run(ctx, speakTimeout, mostSound, nil, v.cfg.Program, "-voice", v.cfg.Voice, "-t", piece, "-o", "/dev/stdout")
	if err != nil {
		return nil, err
	}
	pcm, rate, err := parseWAV(wav)
	if err != nil || rate != voiceRate {
		return nil, &cascade.EngineError{Code: "invalid", Message: fmt.Sprintf("%s gave no sound of %d Hz (%d Hz)", v.cfg.Program, voiceRate, rate), Err: err}
	}
	return trim(pcm), nil
}

// parseWAV reads PCM16 mono out of a RIFF file.
func parseWAV(b []byte) (pcm []int16, rate int, err error) {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, 0, fmt.Errorf("%d bytes that are no WAVE file", len(b))
	}
	for b = b[12:]; len(b) >= 8; {
		id, size := string(b[:4]), int(binary.LittleEndian.Uint32(b[4:8]))
		b = b[8:]
		size = min(size, len(b)) // written through a pipe, it may say more
		switch {
		case id == "fmt " && size >= 16:
			if f, c, bits := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint16(b[14:]); f != 1 || c != 1 || bits != 16 {
				return nil, 0, fmt.Errorf("format %d with %d channels of %d bits; PCM16 mono is wanted", f, c, bits)
			}
			rate = int(binary.LittleEndian.Uint32(b[4:]))
		case id == "data":
			for ; size >= 2; size -= 2 {
				pcm = append(pcm, int16(binary.LittleEndian.Uint16(b)))
				b = b[2:]
			}
			return pcm, rate, nil
		}
		b = b[min(size+size%2, len(b)):]
	}
	return nil, rate, fmt.Errorf("a WAVE file without sound")
}

const (
	silent = 150                // of 32767
	margin = voiceRate / 50     // 20 ms of the silence stay
	pause  = voiceRate * 3 / 10 // at most of that behind
)

// trim takes away most of the silence before the speech, about 200 ms of waiting for nothing, and some of that behind it.
func trim(pcm []int16) []int16 {
	loud := func(s int16) bool { return s > silent || s < -silent }
	from, to := 0, len(pcm)
	for from < to && !loud(pcm[from]) {
		from++
	}
	for to > from && !loud(pcm[to-1]) {
		to--
	}
	return pcm[max(from-margin, 0):min(to+pause, len(pcm))]
}
