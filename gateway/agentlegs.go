package gateway

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"time"

	"sightline/gateway/problem"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// Bounds of what an agent says as a leg or in the agent's name.
const (
	maxLegs      = 8 // that one agent may register
	maxLegText   = 16 << 10
	maxSayText   = 8 << 10
	maxSaySound  = 60 * time.Second
	minSoundRate = 8000
	maxSoundRate = 48000
)

var legName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// tell queues a message for the agent; it never waits.
func (a *agent) tell(message any, missable bool) { a.tellRaw(textMessage(message, missable)) }

func (a *agent) tellRaw(m toldMessage) {
	a.outbox.tell(m)
	a.poke()
}

// hearCaller queues a piece of the caller's sound for the agent.
func (a *agent) hearCaller(pcm []int16, rate int, epoch uint64, since time.Duration) {
	header, err := json.Marshal(wire.AudioHeader{
		Type: wire.TypeAudio, Who: "caller", Epoch: epoch, Rate: rate, Format: wire.FormatPCM, TSMS: since.Milliseconds(),
	})
	if err != nil { // cannot happen: strings and numbers
		return
	}
	message := wire.AppendBinaryHeader(make([]byte, 0, 4+len(header)+2*len(pcm)), header)
	for _, v := range pcm {
		message = binary.LittleEndian.AppendUint16(message, uint16(v))
	}
	a.outbox.hear(message)
	a.poke()
}

// addLeg makes the agent's messages for an epoch go to l.
func (a *agent) addLeg(l *remoteLeg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.legs[l.epoch] = l
}

func (a *agent) removeLeg(l *remoteLeg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.legs[l.epoch] == l {
		delete(a.legs, l.epoch)
	}
}

// isLeg: some epoch is the agent's now, so that it is given sound and speech as a leg.
func (a *agent) isLeg() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.legs) > 0
}

// legOf is the leg of an epoch, nil when that is not the agent's any more: its output is dropped then.
func (a *agent) legOf(epoch uint64) *remoteLeg {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.legs[epoch]; l != nil {
		return l
	}
	a.legDropped++
	return nil
}

// registerLeg offers the agent's pipeline to the session.
func (a *agent) registerLeg(m wire.LegRegister) error {
	p, err := pipelineOf(m)
	if err != nil {
		return err
	}
	voice, err := a.session.speak()
	if err != nil {
		return err
	}
	p.New = func() switcher.Leg {
		return newRemoteLeg(a.session, a.id, m.Name, a.session.cfg.Pipelines.prepareTimeout())
	}
	return voice.register(a, p)
}

func pipelineOf(m wire.LegRegister) (switcher.Pipeline, error) {
	p := switcher.Pipeline{Name: m.Name, Kind: switcher.Kind(m.Kind), Provider: "remote", Default: m.Default}
	if !legName.MatchString(m.Name) {
		return p, problem.New(problem.InvalidArgument, "name %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _, . and -", m.Name).WithField("name")
	}
	if p.Kind != switcher.Cascade && p.Kind != switcher.Realtime {
		return p, problem.New(problem.InvalidArgument, "kind %q: allowed are cascade and realtime", m.Kind).WithField("kind")
	}
	if m.Name == m.Kind || m.Name == string(switcher.Cascade) || m.Name == string(switcher.Realtime) {
		return p, problem.New(problem.InvalidArgument, "name %q is a kind: choose another", m.Name).WithField("name")
	}
	switch m.InRate {
	case 0:
		p.Can.InRate = 16000
	case -1:
	case 16000, 24000, 48000:
		p.Can.InRate = m.InRate
	default:
		return p, problem.New(problem.InvalidArgument, "in_rate %d: allowed are 16000, 24000, 48000 and -1", m.InRate).WithField("in_rate")
	}
	switch {
	case m.OutRate == 0:
		p.Can.OutRate = 24000
	case m.OutRate == -1:
	case m.OutRate >= minSoundRate && m.OutRate <= maxSoundRate:
		p.Can.OutRate = m.OutRate
	default:
		return p, problem.New(problem.InvalidArgument, "out_rate %d: allowed are 8000 to 48000 and -1", m.OutRate).WithField("out_rate")
	}
	p.Can.OwnTurns = m.OwnTurns
	switch mode := switcher.SeedMode(m.Seed); mode {
	case "":
		p.Can.Seeds = []switcher.SeedMode{switcher.SeedHybrid, switcher.SeedItems, switcher.SeedInstructions}
	case switcher.SeedHybrid, switcher.SeedItems, switcher.SeedInstructions:
		p.Can.Seeds = []switcher.SeedMode{mode}
	default:
		return p, problem.New(problem.InvalidArgument, "seed %q: allowed are hybrid, items and instructions", m.Seed).WithField("seed")
	}
	return p, nil
}

// legMessage handles what an agent says as a leg. Output of an epoch that is not its own is dropped.
func (a *agent) legMessage(t wire.Type, data []byte) error {
	switch t {
	case wire.TypeLegReady:
		var m wire.LegReady
		if err := decode(data, &m); err != nil {
			return err
		}
		return a.legPut(m.Epoch, switcher.ReadyOut{})
	case wire.TypeLegFailed:
		var m wire.LegFailed
		if err := decode(data, &m); err != nil {
			return err
		}
		if l := a.legOf(m.Epoch); l != nil {
			l.fail(&switcher.LegError{Code: clip(m.Code, 64), Message: clip(m.Message, 1024), Retryable: m.Retryable})
		}
		return nil
	case wire.TypeLegText:
		var m wire.LegText
		if err := decode(data, &m); err != nil {
			return err
		}
		return a.legTurn(m.Epoch, m.ItemID, m.Delta, switcher.TextOut{Item: m.ItemID, Delta: m.Delta})
	case wire.TypeLegTranscript:
		var m wire.LegTranscript
		if err := decode(data, &m); err != nil {
			return err
		}
		if m.Who != "caller" && m.Who != "agent" {
			return problem.New(problem.InvalidArgument, "who %q: allowed are caller and agent", m.Who).WithField("who")
		}
		return a.legTurn(m.Epoch, m.ItemID, m.Text, switcher.TranscriptOut{
			Item: m.ItemID, Agent: m.Who == "agent", Text: m.Text, Final: m.Final || m.Failed, Failed: m.Failed,
		})
	case wire.TypeLegToolCall:
		var m wire.LegToolCall
		if err := decode(data, &m); err != nil {
			return err
		}
		if m.CallID == "" || len(m.CallID) > 128 || !toolName.MatchString(m.Name) || len(m.Arguments) > maxLegText {
			return problem.New(problem.InvalidArgument, "a tool call has a call_id of 1 to 128 bytes, a name of 1 to 64 of A-Z, a-z, 0-9, _ and -, and arguments of at most %d bytes", maxLegText).WithField("call_id")
		}
		return a.legPut(m.Epoch, switcher.ToolCallOut{CallID: m.CallID, Name: m.Name, Arguments: m.Arguments, Item: m.ItemID})
	case wire.TypeLegTurnDone:
		var m wire.LegTurnDone
		if err := decode(data, &m); err != nil {
			return err
		}
		if m.Status != switcher.TurnCompleted && m.Status != switcher.TurnCancelled && m.Status != switcher.TurnFailed {
			return problem.New(problem.InvalidArgument, "status %q: allowed are completed, cancelled and failed", m.Status).WithField("status")
		}
		return a.legTurn(m.Epoch, m.ItemID, "", switcher.TurnDoneOut{Item: m.ItemID, Status: m.Status})
	}
	return unknownType(t)
}

// legTurn checks the id of a turn and the bound of its text.
func (a *agent) legTurn(epoch uint64, item, text string, o switcher.Output) error {
	if !turnID.MatchString(item) {
		return problem.New(problem.InvalidArgument, "item_id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", item).WithField("item_id")
	}
	if len(text) > maxLegText {
		return problem.New(problem.TooLarge, "the text has %d bytes: at most %d are allowed in one message", len(text), maxLegText)
	}
	return a.legPut(epoch, o)
}

var turnID = toolName

func (a *agent) legPut(epoch uint64, o switcher.Output) error {
	if l := a.legOf(epoch); l != nil {
		return l.put(a.ctx, o)
	}
	return nil
}

// legSound takes a binary audio message of a leg.
func (a *agent) legSound(header, payload []byte) error {
	var m wire.AudioHeader
	if err := decode(header, &m); err != nil {
		return err
	}
	pcm, err := soundOf(m.Rate, m.Format, payload)
	if err != nil {
		return err
	}
	return a.legTurn(m.Epoch, m.ItemID, m.Text, switcher.SoundOut{Item: m.ItemID, Rate: m.Rate, PCM: pcm, Text: m.Text})
}

// soundOf checks and unpacks sound from outside.
func soundOf(rate int, format string, payload []byte) ([]int16, error) {
	switch {
	case format != wire.FormatPCM:
		return nil, problem.New(problem.InvalidArgument, "format %q: allowed is %s", format, wire.FormatPCM).WithField("format")
	case rate < minSoundRate || rate > maxSoundRate:
		return nil, problem.New(problem.InvalidArgument, "rate %d: allowed are %d to %d", rate, minSoundRate, maxSoundRate).WithField("rate")
	case len(payload)%2 != 0:
		return nil, problem.New(problem.InvalidArgument, "the sound has %d bytes: samples are two bytes each", len(payload))
	}
	pcm := make([]int16, len(payload)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(payload[2*i:]))
	}
	return pcm, nil
}

// say puts words or sound into the session's mouth; a repeated op_id says nothing again.
func (a *agent) say(ctx context.Context, m wire.Say, sound []byte) error {
	if m.OpID == "" || len(m.OpID) > 128 {
		return problem.New(problem.InvalidArgument, "op_id is required: 1 to 128 bytes").WithField("op_id")
	}
	if len(m.Text) > maxSayText {
		return problem.New(problem.TooLarge, "text has %d bytes: at most %d are allowed", len(m.Text), maxSayText).WithField("text")
	}
	s := switcher.SayRequest{OpID: m.OpID, Text: m.Text, Agent: a.id, Interruptible: m.Interruptible == nil || *m.Interruptible}
	if sound != nil {
		pcm, err := soundOf(m.Rate, m.Format, sound)
		if err != nil {
			return err
		}
		if time.Duration(len(pcm))*time.Second/time.Duration(m.Rate) > maxSaySound {
			return problem.New(problem.TooLarge, "the sound is longer than %s", maxSaySound)
		}
		s.PCM, s.Rate = pcm, m.Rate
	} else if m.Text == "" {
		return problem.New(problem.InvalidArgument, "text is required, or sound as a binary message").WithField("text")
	}
	voice, err := a.session.speak()
	if err != nil {
		return err
	}
	if err := voice.say(ctx, s); err != nil {
		return err
	}
	return a.done(m.OpID)
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}
