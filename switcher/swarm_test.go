package switcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

// A swarm run is a list of steps made from a seed. Everything random in it comes from the seed and the place of the step, so that
// a step that is left out changes nothing but what it does.

type swarmStep struct {
	do   string
	arg  int
	wait time.Duration // after it
}

func (s swarmStep) String() string { return fmt.Sprintf("%s(%d) %s", s.do, s.arg, s.wait) }

var swarmKinds = []struct {
	do     string
	weight int
}{
	{"speak", 30}, {"switch", 22}, {"repeat", 4}, {"abort", 4}, {"say", 4}, {"type", 5}, {"interrupt", 3}, {"kill", 6}, {"leave", 4}, {"come", 6}, {"stutter", 4},
	{"restart", 1}, {"crash", 1}, {"nothing", 6},
}

func swarmSteps(seed uint64) (steps []swarmStep) {
	r := rand.New(rand.NewPCG(seed, 1))
	total := 0
	for _, k := range swarmKinds {
		total += k.weight
	}
	for range 5 + r.IntN(25) {
		n := r.IntN(total)
		for _, k := range swarmKinds {
			if n -= k.weight; n < 0 {
				waits := []time.Duration{0, 0, 13 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, time.Second, 3 * time.Second}
				steps = append(steps, swarmStep{k.do, r.IntN(1000), waits[r.IntN(len(waits))]})
				break
			}
		}
	}
	return steps
}

// swarmStore is a store that stutters, and that a crash cuts off.
type swarmStore struct {
	chatctx.Store
	mu      sync.Mutex
	stutter int
	dead    bool
}

func (s *swarmStore) Append(ctx context.Context, session string, e chatctx.Entry) error {
	s.mu.Lock()
	dead, n := s.dead, s.stutter
	if s.stutter > 0 {
		s.stutter--
	}
	s.mu.Unlock()
	switch {
	case dead:
		return errors.New("the process is gone")
	case n%3 == 1:
		return errors.New("the disk is away")
	case n%3 == 2:
		if err := s.Store.Append(ctx, session, e); err != nil {
			return err
		}
		return errors.New("the answer was lost")
	}
	return s.Store.Append(ctx, session, e)
}

// swarm is a call under a schedule.
type swarm struct {
	*testCall
	seed    uint64
	disk    chatctx.Store
	flaky   *swarmStore
	caller  chan int
	idle    sync.WaitGroup // the caller's utterances, and switches, that are under way
	mu      sync.Mutex
	spoken  []spoken
	ops     []string
	answers map[string]string // by op_id: how it came out, every time the same
	faults  []string
	troubls []time.Time // restarts
}

type spoken struct {
	n, frames  int
	start, end time.Time
}

func (s *swarm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// swarmPlan is how the n-th leg of a run behaves.
func swarmPlan(seed uint64, n int) plan {
	r := rand.New(rand.NewPCG(seed, uint64(1000+n)))
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most+1)) * time.Millisecond }
	p := plan{connect: ms(300), think: ms(400), late: ms(200), words: 1 + r.IntN(12), chatty: r.IntN(3) == 0}
	p.refuse = n > 1 && (seed+uint64(n))%7 == 0
	switch r.IntN(12) {
	case 0:
		p.fail = &LegError{Code: "connect", Message: "refused", Retryable: r.IntN(2) == 0}
	case 1:
		p.hang = true
	case 2:
		p.die, p.dieErr = ms(4000)+1, &LegError{Code: "expired", Message: "bye", Retryable: r.IntN(3) > 0}
	case 3:
		p.late = ms(2500)
	case 4, 5:
		p.textOnly = true
	}
	if target := []string{"cascade", "realtime", "rt", "nobody"}[r.IntN(4)]; r.IntN(6) == 0 { // a model that wants to switch whenever the caller speaks
		p.transcript = func(l *fakeLeg, text string) bool {
			for i := range 1 + len(text)%3 {
				id := fmt.Sprintf("wish-%d-%s-%d", l.start.Epoch, strings.Fields(text)[0], i)
				l.mu.Lock()
				l.asked[id] = true
				l.mu.Unlock()
				_ = l.out(context.Background(), ToolCallOut{CallID: id, Name: DefaultSwitchTool, Arguments: fmt.Sprintf(`{"target":%q}`, target)})
			}
			return len(text)%2 == 0
		}
	}
	if r.IntN(3) == 0 {
		p.tool, p.repeat = "lookup", r.IntN(3)
	}
	return p
}

func swarmRun(t *testing.T, seed uint64, steps []swarmStep) []string {
	var faults []string
	synctest.Test(t, func(t *testing.T) {
		s := &swarm{seed: seed, disk: chatctx.NewMemStore(), caller: make(chan int, 100), answers: map[string]string{}}
		s.flaky = &swarmStore{Store: s.disk}
		made := 0
		pipe := func(name string, kind Kind) Pipeline {
			p := s.testCall.pipeline(name, kind)
			p.New = func() Leg {
				s.testCall.mu.Lock()
				defer s.testCall.mu.Unlock()
				made++
				l := &fakeLeg{name: name, plan: swarmPlan(seed, made), inputs: &inputs{}}
				l.plan.own = p.Can.OwnTurns
				s.made = append(s.made, l)
				return l
			}
			p.Can.OwnTurns = kind == Realtime && seed%3 > 0
			if kind == Realtime && seed%5 == 0 {
				p.Can.MaxLife = 6 * time.Second
			}
			return p
		}
		s.testCall = &testCall{t: t}
		newCall(t, s.flaky, func(c *testCall, cfg *Config) {
			s.testCall = c
			cfg.Pipelines = []Pipeline{pipe("local", Cascade), pipe("cloud", Cascade), pipe("rt", Realtime)}
			cfg.First = "cascade"
			cfg.Failover.Phrase = "One moment, please."
			cfg.SwitchTool = &SwitchTool{}
			cfg.Times.Prepare = 2 * time.Second
			cfg.Times.MaxWait = 3 * time.Second
		})
		ctx, quit := context.WithCancel(context.Background())
		var callers sync.WaitGroup
		callers.Go(func() { s.beCaller(ctx) })
		for i, step := range steps {
			s.step(i, step, pipe)
			time.Sleep(step.wait)
			s.check(false)
		}
		s.flaky.mu.Lock()
		s.flaky.stutter = 0
		s.flaky.mu.Unlock()
		s.idle.Wait()
		time.Sleep(45 * time.Second) // whatever is late is settled by then
		s.check(true)
		quit()
		callers.Wait()
		s.end()
		s.check(true)
		s.checkAfter()
		s.trace()
		faults = s.faults
	})
	return faults
}

// beCaller speaks what it is told, and is silent in between.
func (s *swarm) beCaller(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case frames := <-s.caller:
			start := time.Now()
			n := s.speak(frames)
			s.mu.Lock()
			s.spoken = append(s.spoken, spoken{n, frames, start, time.Now()})
			s.mu.Unlock()
			s.idle.Done()
		default:
			s.hear(0, 1)
		}
	}
}

func (s *swarm) step(i int, step swarmStep, pipe func(string, Kind) Pipeline) {
	op := fmt.Sprintf("op-%d", i)
	switch step.do {
	case "speak":
		s.idle.Add(1)
		s.caller <- 5 + step.arg%60
	case "switch":
		targets := []string{"cascade", "realtime", "local", "cloud", "rt", "agent", "nobody"}
		r := SwitchRequest{OpID: op, Target: targets[step.arg%len(targets)], At: []At{AtTurnEnd, AtTurnEnd, AtNow, AtAfterSpeech}[step.arg/7%4]}
		if step.arg%11 == 0 {
			r.Instructions = "Speak like a pirate."
		}
		if step.arg%13 == 0 {
			r.Handoff = &Handoff{FromAgent: "sales", ToAgent: "billing", Reason: "a charge"}
		}
		s.ops = append(s.ops, op)
		s.ask(r)
	case "repeat":
		if len(s.ops) > 0 {
			s.ask(SwitchRequest{OpID: s.ops[step.arg%len(s.ops)], Target: "realtime"})
		}
	case "abort":
		if len(s.ops) > 0 {
			s.sw.Abort(s.ops[len(s.ops)-1])
		}
	case "say":
		if err := s.sw.Say(s.ctx, SayRequest{OpID: "say" + op, Text: "One two three.", Rate: testRate, PCM: make([]int16, testRate), Interruptible: step.arg%2 == 0}); err != nil {
			s.fault("say: %v", err)
		}
	case "type":
		_, _ = s.log.Append(s.ctx, chatctx.Origin{Author: "agent", Epoch: s.sw.Epoch(), At: time.Now()}, chatctx.Op{ID: op, Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("typed " + op)}})
	case "interrupt":
		s.sw.Interrupt()
	case "kill":
		s.killOne(step.arg)
	case "leave":
		s.sw.Unregister("agent")
	case "come":
		p := pipe("agent", []Kind{Cascade, Realtime}[step.arg%2])
		p.Default = step.arg%3 == 0
		if err := s.sw.Register(p); err != nil {
			s.fault("register: %v", err)
		}
	case "stutter":
		s.flaky.mu.Lock()
		s.flaky.stutter = 1 + step.arg%9
		s.flaky.mu.Unlock()
	case "restart", "crash":
		s.again(step.do == "crash")
	}
}

// ask asks for a switch without waiting for it.
func (s *swarm) ask(r SwitchRequest) {
	sw := s.sw
	s.idle.Go(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		res, err := sw.Switch(ctx, r)
		var e *Error
		out := ""
		switch {
		case err == nil:
			out = fmt.Sprintf("%s>%s %d %v", res.From, res.To, res.Epoch, res.Noop)
		case errors.As(err, &e) && e.Code == Draining:
			return
		case errors.As(err, &e):
			out = string(e.Code)
		default:
			s.fault("the switch %s did not come out: %v", r.OpID, err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers[r.OpID+" "+out] = out
	})
}

func (s *swarm) killOne(arg int) {
	s.testCall.mu.Lock()
	var alive []*fakeLeg
	for _, l := range s.made {
		l.mu.Lock()
		if l.kill != nil {
			alive = append(alive, l)
		}
		l.mu.Unlock()
	}
	s.testCall.mu.Unlock()
	if len(alive) > 0 {
		l := alive[len(alive)-1]
		l.die(&LegError{Code: "connection", Message: "reset", Retryable: arg%3 > 0})
	}
}

// again ends the session, politely or not, and begins it anew on its log.
func (s *swarm) again(crash bool) {
	s.mu.Lock()
	s.troubls = append(s.troubls, time.Now())
	s.mu.Unlock()
	if crash {
		s.flaky.mu.Lock()
		s.flaky.dead = true
		s.flaky.mu.Unlock()
	}
	s.quit()
	<-s.ended
	s.helpers.Wait()
	if crash {
		s.speaker.Stop()
	}
	s.flaky = &swarmStore{Store: s.disk}
	s.store = s.flaky
	s.begin()
	s.mu.Lock()
	s.troubls = append(s.troubls, time.Now())
	s.mu.Unlock()
}

// TestSwarm runs schedules; SIGHTLINE_SWARM says how many, SIGHTLINE_SWARM_FROM from which seed.
func TestSwarm(t *testing.T) {
	first, n := uint64(1), 1200
	if testing.Short() {
		n = 100
	}
	if v := os.Getenv("SIGHTLINE_SWARM"); v != "" {
		n, _ = strconv.Atoi(v)
	}
	if v := os.Getenv("SIGHTLINE_SWARM_FROM"); v != "" {
		first, _ = strconv.ParseUint(v, 10, 64)
	}
	var next sync.Mutex
	at := first
	t.Run("runs", func(t *testing.T) {
		for range 2 {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for {
					next.Lock()
					seed := at
					at++
					next.Unlock()
					if seed >= first+uint64(n) || t.Failed() {
						return
					}
					steps := swarmSteps(seed)
					if faults := swarmTry(t, seed, steps); len(faults) > 0 {
						small, why := shrink(t, seed, steps, faults)
						t.Errorf("seed %d, %d of %d steps:\n\t%s\nfaults:\n\t%s", seed, len(small), len(steps), joinSteps(small), strings.Join(why[:min(len(why), 12)], "\n\t"))
						return
					}
				}
			})
		}
	})
}

func joinSteps(steps []swarmStep) string {
	var b []string
	for _, s := range steps {
		b = append(b, s.String())
	}
	return strings.Join(b, ", ")
}

// swarmTry is swarmRun in which a deadlock or a panic is a fault.
func swarmTry(t *testing.T, seed uint64, steps []swarmStep) (faults []string) {
	defer func() {
		if r := recover(); r != nil {
			faults = []string{fmt.Sprint("panic: ", r)}
			panic(fmt.Sprintf("seed %d: %v\nsteps: %s", seed, r, joinSteps(steps)))
		}
	}()
	return swarmRun(t, seed, steps)
}

// shrink leaves out what is not needed for the run to fail.
func shrink(t *testing.T, seed uint64, steps []swarmStep, faults []string) ([]swarmStep, []string) {
	for size := len(steps) / 2; size >= 1; {
		shorter := false
		for i := 0; i+size <= len(steps); {
			rest := slices.Concat(steps[:i], steps[i+size:])
			if f := swarmTry(t, seed, rest); len(f) > 0 {
				steps, faults, shorter = rest, f, true
			} else {
				i += size
			}
		}
		if !shorter || size > len(steps) {
			size /= 2
		}
	}
	return steps, faults
}
