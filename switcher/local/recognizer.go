package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sightline/switcher/cascade"
)

// Bounds and defaults of a Recognizer.
const (
	DefaultWarm  = 1
	DefaultMost  = 4
	MaxUtterance = time.Minute // of sound

	recognizerRate = 16000
	// pauseFrames of 10 ms end a stretch of speech: it is understood at once, so that by the time a turn detector is sure that
	// the caller has finished, the text is already there. Shorter pauses occur inside words.
	pauseFrames = "30"
	// lead is 100 ms of silence in bytes, before all sound: the recogniser takes what comes first for the noise of the place,
	// and a turn detector cuts close (measured with noise of -60 dBFS: 4 of 47 words wrong, without it 8).
	lead        = 2 * recognizerRate / 10
	slotWait    = 10 * time.Second // for another utterance to end, when as many run as may
	stall       = 5 * time.Second
	longestLine = 16 << 10 // bytes
)

// RecognizerConfig of pocketsphinx. The zero value is general American English.
type RecognizerConfig struct {
	Program string // "" = pocketsphinx_continuous
	Model   string // folder of the language; "" = /usr/share/pocketsphinx/model/en-us
	// Phrases that will be said and nothing else, in lower case without punctuation: recognition is then held to them, by a
	// grammar, and far more certain. "{digits}" stands for spoken digits, "{name}" for a common first name. Empty: everything.
	Phrases []string
	Warm    int           // loaded processes that wait for a caller to speak, about 100 MB each; 0 = DefaultWarm, below 0 none
	Most    int           // utterances at once, 0 = DefaultMost; more wait for 10 s
	Stall   time.Duration // 0 = 5 s; a process that owes something and sleeps for so long is killed; one that works, after six times that
	Log     *slog.Logger  // nil = none
}

// Recognizer is pocketsphinx: one process per utterance, started before it is needed, so that no utterance has anything of
// another. It works without Run too, but then every utterance waits for a process to load, about half a second.
type Recognizer struct {
	cfg     RecognizerConfig
	grammar func() (string, error) // nil: none
	slots   chan struct{}
	refill  chan struct{} // capacity 1

	mu     sync.Mutex
	warm   []*process
	live   map[*process]bool
	closed bool
	ended  sync.WaitGroup // processes

	started, replaced, failed atomic.Uint64
}

// RecognizerCounters of a Recognizer's life.
type RecognizerCounters struct {
	Started  uint64 `json:"started"`  // processes
	Replaced uint64 `json:"replaced"` // that died while they waited
	Failed   uint64 `json:"failed"`   // utterances that got an error
	Live     int    `json:"live"`     // processes now
}

// NewRecognizer makes a Recognizer; nothing is started.
func NewRecognizer(cfg RecognizerConfig) *Recognizer {
	set(&cfg.Program, "pocketsphinx_continuous")
	set(&cfg.Model, modelFolder)
	set(&cfg.Warm, DefaultWarm)
	set(&cfg.Most, DefaultMost)
	set(&cfg.Stall, stall)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Recognizer{cfg: cfg, slots: make(chan struct{}, max(cfg.Most, 1)), refill: make(chan struct{}, 1), live: map[*process]bool{}}
	if len(cfg.Phrases) > 0 {
		r.grammar = sync.OnceValues(func() (string, error) { return grammar(cfg.Phrases, cfg.Model) })
	}
	return r
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Name implements cascade.Recognizer, as Rate and Listen do.
func (r *Recognizer) Name() string { return "pocketsphinx" }

// Rate is the Hz of PCM16 mono that it wants.
func (r *Recognizer) Rate() int { return recognizerRate }

// Counters gives what happened so far.
func (r *Recognizer) Counters() RecognizerCounters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return RecognizerCounters{r.started.Load(), r.replaced.Load(), r.failed.Load(), len(r.live)}
}

// Run keeps loaded processes at hand until ctx ends; it then kills every process of the Recognizer and returns when they are
// gone. Utterances that were under way get an error, and so does every later one.
func (r *Recognizer) Run(ctx context.Context) error {
	defer r.close()
	wait := time.Second
	for {
		begun := time.Now()
		err := r.fill()
		if err != nil {
			r.cfg.Log.Warn("no recogniser process", "error", err, "again_in", wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.refill:
		case <-r.after(err, wait):
		}
		if err == nil && time.Since(begun) > time.Second { // one that dies at once would otherwise be started in a loop
			wait = time.Second
			continue
		}
		wait = min(wait*2, 30*time.Second)
		if r.dying() {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
		}
	}
}

// after is the time to try again; without an error only a change is waited for.
func (r *Recognizer) after(err error, wait time.Duration) <-chan time.Time {
	if err == nil {
		return nil
	}
	return time.After(wait)
}

// dying tells whether a process that nobody used is dead.
func (r *Recognizer) dying() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.warm, func(p *process) bool { return !p.alive() })
}

func (r *Recognizer) fill() error {
	for {
		r.mu.Lock()
		r.discard()
		enough := len(r.warm) >= r.cfg.Warm
		r.mu.Unlock()
		if enough {
			return nil
		}
		p, err := r.launch()
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.warm = append(r.warm, p)
		r.mu.Unlock()
	}
}

// discard drops processes that died while they waited. The caller has the lock.
func (r *Recognizer) discard() {
	r.warm = slices.DeleteFunc(r.warm, func(p *process) bool {
		if p.alive() {
			return false
		}
		r.replaced.Add(1)
		p.end()
		return true
	})
}

// take gives a process of one's own, a loaded one if there is.
func (r *Recognizer) take() (*process, error) {
	r.mu.Lock()
	r.discard()
	var p *process
	if len(r.warm) > 0 {
		p, r.warm = r.warm[0], r.warm[1:]
	}
	r.mu.Unlock()
	r.poke()
	if p != nil {
		return p, nil
	}
	return r.launch()
}

func (r *Recognizer) poke() {
	select {
	case r.refill <- struct{}{}:
	default:
	}
}

var errClosed = errors.New("the recogniser has been stopped")

func (r *Recognizer) launch() (*process, error) {
	args := []string{"-infile", "/dev/stdin", "-logfn", "/dev/null", "-vad_postspeech", pauseFrames,
		"-hmm", r.cfg.Model + "/en-us", "-dict", r.cfg.Model + "/cmudict-en-us.dict"}
	var extra []*os.File
	if r.grammar != nil {
		text, err := r.grammar()
		if err != nil {
			return nil, &cascade.EngineError{Code: "invalid", Message: "phrases", Err: err}
		}
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer read.Close()
		if _, err = write.WriteString(text); err != nil { // smaller than a pipe's buffer, see grammar
			write.Close()
			return nil, err
		}
		write.Close()
		extra, args = []*os.File{read}, append(args, "-jsgf", "/dev/fd/3")
	} else {
		args = append(args, "-lm", r.cfg.Model+"/en-us.lm.bin")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, unreachable(r.cfg.Program, errClosed)
	}
	p, err := launch(r.cfg.Program, args, extra...)
	if err != nil {
		return nil, unreachable(r.cfg.Program, err)
	}
	r.live[p] = true
	r.started.Add(1)
	r.ended.Go(func() {
		<-p.done
		r.mu.Lock()
		delete(r.live, p)
		r.mu.Unlock()
		r.poke()
	})
	return p, nil
}

func (r *Recognizer) close() {
	r.mu.Lock()
	r.closed = true
	for p := range r.live {
		p.kill()
	}
	warm := r.warm
	r.warm = nil
	r.mu.Unlock()
	for _, p := range warm {
		p.end()
	}
	r.ended.Wait()
}
