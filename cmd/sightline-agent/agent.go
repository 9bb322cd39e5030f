package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/switcher/rules"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
)

// maxWaiting bounds the messages that wait for an answer; a user types slower than this agent answers.
const maxWaiting = 64

// agent prints what the client tells and answers in a goroutine of its own: the client's handlers must not wait.
type agent struct {
	o      options
	leg    rules.Responder
	client *agentclient.Client

	questions chan *chatctx.Message
	ctx       context.Context // of run; the client's handlers start tasks under it
	tasks     sync.WaitGroup

	mu      sync.Mutex
	out     io.Writer
	last    string                 // the last complaint about the connection: said once
	sources map[string]wire.Source // by name
	floor   string                 // the leg that has it, "" none: then this agent answers
	coming  string                 // the leg that is being prepared, "" none
	moved   chan struct{}          // closed and made anew whenever one of the two changes
	asked   bool                   // the switch was asked for
}

func newAgent(o options, out io.Writer, leg rules.Responder) *agent {
	return &agent{o: o, out: out, leg: leg, questions: make(chan *chatctx.Message, maxWaiting), sources: map[string]wire.Source{}, moved: make(chan struct{})}
}

func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	a.ctx = ctx
	answering := &a.tasks
	answering.Go(func() { a.answerLoop(ctx) })
	err := a.client.Run(ctx)
	cancel()
	answering.Wait()
	if err == nil {
		s := a.client.Stats()
		a.say("left session %s: %d entries, %d images, %d superseded, %d reconnects",
			a.o.session, s.Entries, s.Images, s.Superseded, max(s.Attached, 1)-1)
	}
	return err
}

// say prints one line with the time.
func (a *agent) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.print(format, args...)
}

// print is say with mu held.
func (a *agent) print(format string, args ...any) {
	fmt.Fprintf(a.out, "%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

func (a *agent) attached(w wire.Welcome) {
	a.mu.Lock()
	a.last = ""
	clear(a.sources)
	floor := ""
	if w.ActiveLeg != nil {
		floor = *w.ActiveLeg
	}
	a.pipelines(floor, "")
	for _, s := range w.Sources {
		a.sources[s.Name] = s
	}
	a.mu.Unlock()
	a.say("attached to session %s as %s at entry %d", w.Session, w.AgentID, w.Seq)
	for _, s := range w.Sources {
		a.saySource(s)
	}
	a.begin()
	if w.Snapshot == nil || len(w.Snapshot.Items) == 0 {
		return
	}
	// Somebody spoke before this agent was there, and nobody has answered.
	if m, ok := w.Snapshot.Items[len(w.Snapshot.Items)-1].(*chatctx.Message); ok && m.Role == chatctx.RoleUser {
		a.ask(m)
	}
}

func (a *agent) detached(err error, pause time.Duration) {
	text := "not attached: " + err.Error()
	var refused *agentclient.HTTPError
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		text = fmt.Sprintf("session %s does not exist yet: open %s and press Start camera; waiting", a.o.session, a.page())
	} else if !errors.As(err, &refused) {
		text += "; trying again until Ctrl-C"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if text != a.last {
		a.last = text
		a.print("%s", text)
	}
}

// page is where a person starts the session.
func (a *agent) page() string {
	return strings.TrimSuffix(a.o.url, "/") + "/?session=" + url.QueryEscape(a.o.session)
}

func (a *agent) source(s wire.Source) {
	a.mu.Lock()
	a.sources[s.Name] = s
	a.mu.Unlock()
	a.saySource(s)
}

func (a *agent) saySource(s wire.Source) {
	text := ""
	if s.Screen {
		text = ", a screen"
	}
	if s.Frozen {
		text += ", frozen: nothing in it changes"
	}
	a.say("source %s is %s: %s %d×%d%s", s.Name, s.State, s.Codec, s.Width, s.Height, text)
}

func (a *agent) refused(e wire.Error) { a.say("refused: %s: %s", e.Code, e.Message) }

func (a *agent) bye(b wire.Bye) { a.say("the gateway says bye: %s", or(b.Reason, "no reason given")) }

func (a *agent) image(i agentclient.Image) {
	text := fmt.Sprintf("image %s #%d %d×%d, %d bytes, captured %.2f s ago", i.Source, i.Seq, i.Width, i.Height, len(i.Data),
		max(0, i.ReceivedAt.Sub(i.CapturedAt.Time)).Seconds())
	if i.Superseded > 0 {
		text += fmt.Sprintf(", %d superseded", i.Superseded)
	}
	if i.Unchanged > 0 {
		text += fmt.Sprintf(", %d withheld as unchanged", i.Unchanged)
	}
	if a.o.imagesDir != "" {
		name, err := a.save(i)
		if err != nil {
			text += ", not saved: " + err.Error()
		} else {
			text += ", saved as " + name
		}
	}
	a.say("%s", text)
}

// save names the file by source and capture time, so that runs do not overwrite each other.
func (a *agent) save(i agentclient.Image) (string, error) {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_' // a source's name comes from outside
	}, i.Source)
	extension := ".jpg"
	if i.MIME == "image/png" {
		extension = ".png"
	}
	name := filepath.Join(a.o.imagesDir, safe+"-"+i.CapturedAt.UTC().Format("20060102T150405.000")+extension)
	return name, os.WriteFile(name, i.Data, 0o644)
}

func (a *agent) entry(e chatctx.Entry) {
	if e.Item == nil {
		a.say("entry %d %s by %s", e.Seq, e.Op, e.Author)
		return
	}
	m, isMessage := e.Item.(*chatctx.Message)
	if !isMessage {
		a.say("entry %d %s %s by %s", e.Seq, e.Op, role(e.Item), e.Author)
		if p, ok := e.Item.(*chatctx.PipelineSwitch); ok && e.Op == chatctx.OpAppend {
			a.switching(p)
		}
		return
	}
	a.say("entry %d %s %s: %s", e.Seq, e.Op, m.Role, contentLine(m.Content))
	if e.Op != chatctx.OpAppend || m.Role != chatctx.RoleUser || e.Author == a.o.agentID {
		return
	}
	a.ask(m)
}

// ask queues a message for the answering goroutine, unless a pipeline answers it.
func (a *agent) ask(m *chatctx.Message) {
	a.mu.Lock()
	floor := a.floor
	a.mu.Unlock()
	if floor != "" {
		return
	}
	select {
	case a.questions <- m:
	default:
		a.say("too many messages at once: %s stays unanswered", m.ID)
	}
}

// contentLine is a message on one line of bounded length.
func contentLine(c chatctx.Content) string {
	const most = 300
	var parts []string
	for _, p := range c {
		switch p := p.(type) {
		case chatctx.Text:
			parts = append(parts, strings.Join(strings.Fields(p.Text), " "))
		case chatctx.ImageContent:
			parts = append(parts, fmt.Sprintf("[image %s %d×%d]", or(p.Source, "of unknown source"), p.Width, p.Height))
		}
	}
	runes := []rune(strings.Join(parts, " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}
