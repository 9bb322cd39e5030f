package window

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	chatctx "sightline/context"
	"sightline/context/tokens"
)

// Defaults of a Config.
const (
	DefaultPromptBytes = 128 << 10
	DefaultTimeout     = time.Minute
	DefaultMinBackoff  = 2 * time.Second
	DefaultMaxBackoff  = 5 * time.Minute
	// maxSummaryBytes bounds a summary; a model that writes more has not summed up.
	maxSummaryBytes = 32 << 10
)

// Config is what a Manager needs. Zero values mean the defaults.
type Config struct {
	Log     *chatctx.Log
	Window  ContextWindow
	Counter tokens.Counter // of MaxTokens; the zero Counter means tokens.Heuristic()
	Author  string         // of the entries that are written; default "system"

	PromptBytes int           // of one request's Conversation, about; what is more goes into the next summary
	Timeout     time.Duration // of one call of the Summarizer
	MinBackoff  time.Duration // after its first failure; each further one doubles it
	MaxBackoff  time.Duration
	Logger      *slog.Logger
}

// Manager keeps one session's conversation within its limits; see the package's guarantees.
type Manager struct {
	cfg   Config
	view  *View
	stats struct{ summaries, dropped, failures, void atomic.Uint64 }
}

// Stats are a Manager's counters.
type Stats struct {
	Summaries uint64 // written
	Dropped   uint64 // items removed without a summary, because there is no Summarizer
	Failures  uint64 // of the Summarizer: errors, empty or endless answers
	Void      uint64 // summaries not used because what they stand for had changed
}

// New makes a Manager; it does nothing before Run.
func New(cfg Config) (*Manager, error) {
	if cfg.Log == nil {
		return nil, &chatctx.Error{Kind: chatctx.InvalidArgument, Field: "log", Detail: "a window needs a log"}
	}
	if err := cfg.Window.Check(); err != nil {
		return nil, err
	}
	if cfg.Counter.Name() == "" {
		cfg.Counter = tokens.Heuristic()
	}
	if cfg.Author == "" {
		cfg.Author = "system"
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&cfg.Timeout, DefaultTimeout}, {&cfg.MinBackoff, DefaultMinBackoff}, {&cfg.MaxBackoff, DefaultMaxBackoff}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if cfg.PromptBytes <= 0 {
		cfg.PromptBytes = DefaultPromptBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg, view: NewView(cfg.Counter, cfg.Author)}, nil
}

// Stats may be called at any time.
func (m *Manager) Stats() Stats {
	s := &m.stats
	return Stats{s.summaries.Load(), s.dropped.Load(), s.failures.Load(), s.void.Load()}
}

// Run follows the log and works until ctx ends, whose error it returns, or until the log is damaged. Call it once.
func (m *Manager) Run(ctx context.Context) error {
	cursor, err := m.cfg.Log.Follow(0)
	if err != nil {
		return err
	}
	retry := time.NewTimer(0)
	defer retry.Stop()
	<-retry.C
	wait, due := time.Duration(0), false // due: the back-off has not passed yet
	for {
		err := m.catchUp(ctx, cursor)
		if err == nil && !due {
			err = m.work(ctx, cursor)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isDamaged(err):
			return err
		case err != nil:
			wait = min(max(2*wait, m.cfg.MinBackoff), m.cfg.MaxBackoff)
			retry.Reset(wait)
			due = true
			m.cfg.Logger.Warn("the context could not be brought within its limits", "error", err, "retry_in", wait)
		case !due:
			wait = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
			due = false
		case <-m.grown(cursor, err):
		}
	}
}

// grown is nil while the log cannot be read: then only the timer is waited for.
func (m *Manager) grown(c *chatctx.Cursor, err error) <-chan struct{} {
	if err != nil {
		return nil
	}
	return c.Grown()
}

func isDamaged(err error) bool {
	var e *chatctx.Error
	return errors.As(err, &e) && e.Kind == chatctx.LogDamaged
}

// catchUp takes the log's news in.
func (m *Manager) catchUp(ctx context.Context, c *chatctx.Cursor) error {
	for {
		e, ok, err := c.TryNext(ctx)
		if err != nil || !ok {
			return err
		}
		if err := m.view.Apply(e); err != nil {
			return err
		}
	}
}

// work brings the conversation within its limits, as far as that helps.
func (m *Manager) work(ctx context.Context, c *chatctx.Cursor) error {
	for m.cfg.Window.over(m.view.Tokens(), m.view.Len()) {
		again, err := m.fold(ctx, c)
		if err != nil || !again {
			return err
		}
	}
	return nil
}

// isOvertaken reports whether what an operation is about was changed or removed before it came.
func isOvertaken(err error) bool {
	var e *chatctx.Error
	return errors.As(err, &e) && (e.Kind == chatctx.NotFound || e.Kind == chatctx.Conflict)
}

func (m *Manager) append(ctx context.Context, op chatctx.Op) (chatctx.Ack, error) {
	return m.cfg.Log.Append(ctx, chatctx.Origin{Author: m.cfg.Author, Epoch: m.view.epoch, At: time.Now()}, op)
}

// drop removes the oldest without a summary.
func (m *Manager) drop(ctx context.Context, c *chatctx.Cursor) (again bool, err error) {
	at := m.view.Seq()
	units := m.cfg.Window.dropUnits(m.view)
	var ids []string
	for _, unit := range units {
		if len(ids)+len(unit) > chatctx.MaxRemove {
			break
		}
		ids = append(ids, unit...)
	}
	if len(ids) == 0 {
		return false, nil
	}
	_, err = m.append(ctx, chatctx.Op{ID: fmt.Sprintf("window-drop:%d:%s", at, ids[0]), Kind: chatctx.OpTruncate, Remove: ids, BaseSeq: at})
	switch {
	case err == nil:
		m.stats.dropped.Add(uint64(len(ids)))
	case !isOvertaken(err): // who was faster has brought news, and with it another plan
		return false, err
	}
	return true, m.catchUp(ctx, c)
}

// fold writes one summary in the place of what it stands for, or removes the oldest when there is no Summarizer; again says that
// it is worth another look.
func (m *Manager) fold(ctx context.Context, c *chatctx.Cursor) (again bool, err error) {
	if m.cfg.Window.SummaryLLM == nil {
		return m.drop(ctx, c)
	}
	p := m.cfg.Window.Plan(m.view, m.cfg.PromptBytes)
	if !m.cfg.Window.worthwhile(p) {
		return false, nil
	}
	text, err := m.summarise(ctx, p)
	if err != nil {
		m.stats.failures.Add(1)
		return false, err
	}
	if err := m.catchUp(ctx, c); err != nil {
		return false, err
	}
	void := errors.New("summary: what it stands for was changed meanwhile")
	if now := m.view.foldSet(m.view.nodes(), p.fold); len(now) != len(p.Fold) { // changed or removed: the text may tell what is not to be told
		m.stats.void.Add(1)
		return false, void
	}
	summary := &chatctx.Summary{ID: fmt.Sprintf("summary-%d-%d-%d", p.Covers[0], p.Covers[1], p.fold.at), Text: text, Covers: p.Covers}
	op := chatctx.Op{ID: p.fold.opID(), Kind: chatctx.OpAppend, Item: summary, BaseSeq: p.fold.at}
	for _, item := range p.Fold {
		op.Remove = append(op.Remove, item.ItemID())
		op.After = item.ItemID() // it stands where the last that it stands for stood
	}
	switch _, err := m.append(ctx, op); {
	case isOvertaken(err):
		m.stats.void.Add(1)
		return false, void
	case err != nil:
		return false, err
	}
	m.stats.summaries.Add(1)
	return true, m.catchUp(ctx, c)
}

// summarise asks for the text.
func (m *Manager) summarise(ctx context.Context, p Plan) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	text, err := m.cfg.Window.SummaryLLM.Summarize(ctx, Request{Instructions: instructions, Conversation: render(p.Fold), Items: p.Fold})
	if err != nil {
		return "", fmt.Errorf("summary: %w", err)
	}
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	switch {
	case text == "":
		return "", errors.New("summary: the model answered nothing")
	case len(text) > maxSummaryBytes:
		return "", fmt.Errorf("summary: the model answered %d bytes, at most %d are a summary", len(text), maxSummaryBytes)
	}
	return text, nil
}
