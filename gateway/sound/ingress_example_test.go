package sound_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sightline/gateway/sound"
	"sightline/gateway/sound/vad"
)

// How a session hears its caller: the packets of the audio track go to Push; each frame goes to the switcher, the one of the
// Listener's rate to the Listener first, so that the beginning of speech is known before more of its sound.
func Example_caller() {
	model, err := vad.Load() // once for a process
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := sound.NewListener(model, sound.TurnPolicy{})
	meter := sound.Meter{}
	frames := 0
	ctx, cancel := context.WithCancel(context.Background())
	in, err := sound.NewIngress(sound.IngressConfig{
		PayloadType: 111,                               // uint8(track.PayloadType())
		Rates:       []int{sound.ListenerRate, 24_000}, // ListenerRate, and Switcher.Rates; SetRates changes them
		Frame: func(rate int, pcm []int16, at time.Time) {
			if rate == sound.ListenerRate {
				for _, s := range listener.Hear(pcm, at) {
					fmt.Println(s.Started, s.Final) // Switcher.CallerSpeech(s.Started, s.Final, s.At)
				}
				if level, _, ok := meter.Add(rate, pcm, at); ok {
					fmt.Println("level", level.RMS) // to the page
					cancel()
				}
			}
			frames++ // Switcher.Hear(rate, pcm, at)
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// for { p, _, err := track.ReadRTP(); ...; in.Push(p, time.Now()) }
	fmt.Println(in.Run(ctx), frames >= 10)
	// Output:
	// level -100
	// <nil> true
}
