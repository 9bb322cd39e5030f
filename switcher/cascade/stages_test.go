package cascade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// TestStagesAreTimed: each try of each engine is told with when it began, when the caller could notice it, and how it ended.
func TestStagesAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		broken := &EngineError{Code: "rate_limited", Message: "later", After: time.Minute, Retryable: true}
		answer := func(ctx context.Context, yield func(Delta) error) (Finish, error) {
			_, err := says(200*time.Millisecond, "One. ", "Two.")(ctx, yield)
			return Finish{Reason: "stop", TokensIn: 11, TokensOut: 4}, err
		}
		r := newRig(t, Config{
			Recognizers: []Recognizer{&ear{texts: []string{"count"}, lag: 50 * time.Millisecond}},
			Models:      models(&brain{name: "1", script: []func(context.Context, func(Delta) error) (Finish, error){fails(broken)}}, &brain{name: "2", script: []func(context.Context, func(Delta) error) (Finish, error){answer}}),
			Voices:      []Voice{&mouth{wait: 10 * time.Millisecond}},
		})
		r.speaks() // takes no time here: the sound is given at once
		time.Sleep(5 * time.Second)
		var told []string
		for _, o := range outputs[switcher.StageOut](r) {
			first := "never"
			if !o.First.IsZero() {
				first = o.First.Sub(began).String()
			}
			told = append(told, fmt.Sprintf("%s %s %s %s %s %s [%s] %d %d", o.Stage, o.Engine, o.Item, o.Began.Sub(began), first, o.Ended.Sub(began), o.Code, o.TokensIn, o.TokensOut))
		}
		r.want("stages", "\n"+strings.Join(told, "\n"), strings.Join([]string{"",
			"stt ear c7-u1 0s 0s 50ms [] 0 0",
			"llm brain1 c7-a2 50ms never 50ms [rate_limited] 0 0",
			"tts mouth c7-a2 250ms 260ms 290ms [] 0 0",
			"llm brain2 c7-a2 50ms 250ms 450ms [] 11 4",
			"tts mouth c7-a2 450ms 460ms 490ms [] 0 0",
		}, "\n"))
		r.end()
	})
}

// TestAStageThatIsNotWantedAnyMoreIsCancelled: that is no failure of its engine.
func TestAStageThatIsNotWantedAnyMoreIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Models: models(&brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(time.Second, "On ", "and ", "on.")}})})
		r.types("talk")
		time.Sleep(1500 * time.Millisecond)
		item := outputs[switcher.TextOut](r)[0].Item
		r.put(switcher.InterruptedIn{Item: item})
		time.Sleep(time.Second)
		all := outputs[switcher.StageOut](r)
		if len(all) != 1 || all[0].Code != "cancelled" || all[0].Item != item || all[0].Ended.Sub(all[0].Began) != 1500*time.Millisecond {
			t.Errorf("stages %+v", all)
		}
		r.record(&chatctx.Message{ID: item, Role: chatctx.RoleAssistant})
		r.end()
	})
}
