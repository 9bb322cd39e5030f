package switcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// fakeLeg is a leg that obeys the contract. It understands the caller exactly: what it writes says which frames of which
// utterance it has heard.
type fakeLeg struct {
	name    string
	plan    plan
	start   Start
	out     Emit
	inputs  *inputs
	crew    sync.WaitGroup
	kill    context.CancelCauseFunc
	mu      sync.Mutex
	frames  map[int][]int // by utterance
	known   map[int]bool  // transcribed
	items   int
	stop    context.CancelFunc // of the answer under way
	saying  string
	results map[string]chan ToolResultIn
	before  chan struct{} // closed when the transcript before is out
	own     string        // utterance that it hears, by its own detector
	silent  int
	asked   map[string]bool
}

// plan is how a fake leg behaves.
type plan struct {
	connect    time.Duration
	fail       error         // instead of being ready
	hang       bool          // never ready
	refuse     bool          // a seed of items
	think      time.Duration // before an answer
	late       time.Duration // between the end of speech and its transcript
	words      int           // of an answer; 0: 5
	textOnly   bool
	tool       string        // called before each answer
	repeat     int           // how often the call is repeated
	die        time.Duration // after the floor
	dieErr     error
	chatty     bool // says things when it must not: before the floor, and after its end
	transcript func(l *fakeLeg, text string) bool
	own        bool // finds the turns of the caller itself
}

// inputs is what a fake leg was given.
type inputs struct {
	mu   sync.Mutex
	list []Input
}

func (i *inputs) add(in Input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, in)
}

func (i *inputs) all() []Input {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.list)
}

func inputsOf[T Input](i *inputs) (out []T) {
	for _, in := range i.all() {
		if v, ok := in.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

func (l *fakeLeg) Run(ctx context.Context, start Start, in *Inbox, out Emit) error {
	parent := ctx
	ctx, kill := context.WithCancelCause(ctx)
	defer l.crew.Wait()
	defer kill(nil)
	l.mu.Lock()
	l.start, l.out, l.kill = start, out, kill
	l.frames, l.known, l.results, l.asked = map[int][]int{}, map[int]bool{}, map[string]chan ToolResultIn{}, map[string]bool{}
	l.mu.Unlock()
	if l.plan.chatty {
		_ = out(ctx, TextOut{Item: "early", Delta: "nobody asked"})
		defer func() { // and it goes on when it is stopped
			if parent.Err() == nil {
				return
			}
			_ = out(context.WithoutCancel(ctx), SoundOut{Item: "ghost", Rate: testRate, PCM: make([]int16, 800)})
			_ = out(context.WithoutCancel(ctx), TranscriptOut{Item: "ghost", Text: "ghost", Final: true})
		}()
	}
	if err := pause(ctx, l.plan.connect); err != nil {
		return nil
	}
	switch {
	case l.plan.fail != nil:
		return l.plan.fail
	case l.plan.refuse && start.Seed.Mode != SeedInstructions:
		return &LegError{Code: CodeSeed, Message: "1007", Retryable: true}
	case l.plan.hang:
		<-ctx.Done()
		return nil
	}
	if err := out(ctx, ReadyOut{}); err != nil {
		return nil
	}
	for {
		input, err := in.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); parent.Err() == nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		}
		l.handle(ctx, input)
	}
}

// die ends a leg with an error.
func (l *fakeLeg) die(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill(err)
}

// gives is an output that a test makes.
func (l *fakeLeg) gives(ctx context.Context, o Output) {
	l.mu.Lock()
	out := l.out
	l.mu.Unlock()
	_ = out(ctx, o)
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *fakeLeg) handle(ctx context.Context, in Input) {
	if _, sound := in.(SoundIn); !sound {
		l.inputs.add(in)
	}
	switch in := in.(type) {
	case SoundIn:
		if l.plan.own {
			l.detect(ctx, in)
		}
		if v := int(in.PCM[0]); v > 0 {
			l.mu.Lock()
			l.frames[v/100] = append(l.frames[v/100], v%100)
			l.mu.Unlock()
		}
	case CallerSpeechIn:
		if in.Started {
			l.cancel()
		}
		if in.Started && l.own == "" {
			l.own = l.id("u")
			if l.plan.late > 200*time.Millisecond {
				_ = l.out(ctx, CallerSpeechOut{Item: l.own, Started: true})
			}
		}
		if in.Final {
			item := l.own
			if l.own = ""; item == "" {
				item = l.id("u")
			}
			l.understand(ctx, item)
		}
	case FloorIn:
		if l.plan.die > 0 {
			l.crew.Go(func() {
				if pause(ctx, l.plan.die) == nil {
					l.kill(l.plan.dieErr)
				}
			})
		}
		if in.Respond {
			l.answer(ctx)
		}
	case ItemIn:
		if in.Respond {
			l.answer(ctx)
		}
	case InterruptedIn:
		l.mu.Lock()
		mine := l.saying == in.Item
		l.mu.Unlock()
		if mine {
			l.cancel()
		}
	case ToolResultIn:
		l.mu.Lock()
		ch := l.results[in.CallID]
		delete(l.results, in.CallID)
		l.mu.Unlock()
		if ch != nil {
			ch <- in
		} else {
			l.answer(ctx) // a call of the leg before
		}
	}
}

// detect finds the turns of the caller.
func (l *fakeLeg) detect(ctx context.Context, in SoundIn) {
	switch {
	case in.PCM[0] > 0 && l.own == "":
		l.own, l.silent = l.id("u"), 0
		l.cancel()
		_ = l.out(ctx, CallerSpeechOut{Item: l.own, Started: true, At: in.At})
	case in.PCM[0] > 0:
		l.silent = 0
	case l.own != "":
		if l.silent++; l.silent == 10 {
			item := l.own
			l.own = ""
			_ = l.out(ctx, CallerSpeechOut{Item: item, At: in.At})
			l.understand(ctx, item)
		}
	}
}

func (l *fakeLeg) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// heardFrames writes which frames of utterances were heard that are not written yet.
func (l *fakeLeg) heardFrames() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for u, f := range l.frames {
		if l.known[u] {
			continue
		}
		l.known[u] = true
		whole := true
		for i, n := range f {
			whole = whole && n == f[0]+i
		}
		if whole {
			words = append(words, fmt.Sprintf("u%d:%d-%d", u, f[0], f[len(f)-1]))
		} else {
			words = append(words, fmt.Sprintf("u%d:%v", u, f))
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (l *fakeLeg) id(prefix string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items++
	return fmt.Sprintf("%s%d", prefix, l.items)
}

// understand writes what the caller said, and answers.
func (l *fakeLeg) understand(ctx context.Context, item string) {
	text := l.heardFrames()
	before, done := l.before, make(chan struct{})
	l.before = done
	l.crew.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if text != "" && l.plan.late > 50*time.Millisecond {
			_ = l.out(ctx, TranscriptOut{Item: item, Text: text}) // all of it, and not final
		}
		if pause(ctx, l.plan.late) != nil {
			return
		}
		if text == "" {
			_ = l.out(ctx, TranscriptOut{Item: item, Failed: true})
			return
		}
		if l.out(ctx, TranscriptOut{Item: item, Text: text, Final: true, At: time.Time{}}) != nil {
			return
		}
		if l.plan.transcript != nil && l.plan.transcript(l, text) {
			return
		}
		l.answer(ctx)
	})
}

// answer says a few words, with a tool first where the plan says so.
func (l *fakeLeg) answer(ctx context.Context) {
	l.mu.Lock()
	if l.stop != nil {
		l.stop()
	}
	ctx2, stop := context.WithCancel(ctx)
	l.stop = stop
	l.mu.Unlock()
	l.crew.Go(func() {
		defer stop()
		if pause(ctx2, l.plan.think) != nil {
			return
		}
		if l.plan.tool != "" && !l.callTool(ctx, ctx2) {
			return
		}
		l.say(ctx, ctx2)
	})
}

func (l *fakeLeg) callTool(ctx, ctx2 context.Context) bool {
	id := l.id(fmt.Sprintf("call-%d-", l.start.Epoch))
	ch := make(chan ToolResultIn, 4)
	l.mu.Lock()
	l.results[id] = ch
	l.asked[id] = true
	l.mu.Unlock()
	for range 1 + l.plan.repeat {
		if l.out(ctx, ToolCallOut{CallID: id, Name: l.plan.tool, Arguments: `{"n":"456"}`}) != nil {
			return false
		}
	}
	select {
	case <-ch:
		return ctx2.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (l *fakeLeg) say(ctx, ctx2 context.Context) {
	item := l.id("a")
	l.mu.Lock()
	l.saying = item
	l.mu.Unlock()
	words := l.plan.words
	if words == 0 {
		words = 5
	}
	status := TurnCompleted
	for i := range words {
		if ctx2.Err() != nil {
			status = TurnCancelled
			break
		}
		w := fmt.Sprintf("%s-%s-%d-w%x ", l.name, item, l.start.Epoch, i)
		if l.out(ctx, TextOut{Item: item, Delta: w}) != nil {
			return
		}
		if l.plan.textOnly {
			continue
		}
		if l.out(ctx, SoundOut{Item: item, Rate: testRate, PCM: make([]int16, int(wordLong*testRate/time.Second)), Text: w}) != nil {
			return
		}
	}
	_ = l.out(ctx, TurnDoneOut{Item: item, Status: status})
}
