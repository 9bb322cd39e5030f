package gateway

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway/problem"
	"sightline/gateway/rtc"
	"sightline/switcher"
)

// The states of a session.
const (
	stateConnecting = "connecting" // made, and nobody has published yet
	stateLive       = "live"       // a publisher is connected and sends
	stateStalled    = "stalled"    // there was a publisher, and now nothing arrives
	stateEnded      = "ended"
)

// sessionDetail is a session as HTTP tells it. Sizes are pixels, rates are per second.
type sessionDetail struct {
	ID        string             `json:"id"`
	State     string             `json:"state"`
	CreatedAt chatctx.Time       `json:"created_at"`
	LogID     string             `json:"log_id"`
	Seq       uint64             `json:"seq"`
	Epoch     uint64             `json:"epoch"`
	ActiveLeg *string            `json:"active_leg"`
	Sources   []sourceDetail     `json:"sources"`
	Agents    []agentDetail      `json:"agents"`
	Legs      []switcher.LegInfo `json:"legs"`
	Publisher *rtc.PeerStats     `json:"publisher,omitempty"`
}

type sourceDetail struct {
	Name           string        `json:"name"`
	State          string        `json:"state"`
	Codec          string        `json:"codec"`
	Width          int           `json:"width"`
	Height         int           `json:"height"`
	FPS            float64       `json:"fps"`
	BitrateBPS     int64         `json:"bitrate_bps"`
	BitrateCapBPS  int           `json:"bitrate_cap_bps"`
	Policy         string        `json:"policy"`
	InEffect       string        `json:"policy_in_effect"`
	PolicyReason   string        `json:"policy_reason"`
	Decoded        uint64        `json:"decoded"`
	Delivered      uint64        `json:"delivered"`
	Superseded     uint64        `json:"superseded"`
	Dropped        uint64        `json:"dropped"`
	Lost           uint64        `json:"lost"`
	Packets        uint64        `json:"packets"`
	KeyFrames      uint64        `json:"key_frames"`
	PolicySkipped  uint64        `json:"policy_skipped"`
	PLIs           uint64        `json:"plis"`
	PLIsAnswered   uint64        `json:"plis_answered"`
	PLIAnswerMS    int64         `json:"pli_answer_ms"` // smoothed; 0: none was answered yet
	Layers         []layerDetail `json:"layers"`
	LayerSwitches  uint64        `json:"layer_switches"`
	SpatialLayer   int           `json:"spatial_layer"`
	SpatialLayers  int           `json:"spatial_layers"`
	TemporalLayer  int           `json:"temporal_layer"`
	TemporalLayers int           `json:"temporal_layers"`
	LastCapturedAt chatctx.Time  `json:"last_captured_at,omitzero"`
	AgeMS          *int64        `json:"age_ms"` // of the newest image; null while there is none
	Screen         bool          `json:"screen"`
	Frozen         bool          `json:"frozen"`
	Unchanged      uint64        `json:"unchanged"`
	CaptureErrorMS *int64        `json:"capture_error_ms"` // of the newest image; null: not known
	CaptureClock   string        `json:"capture_clock"`    // likewise
}

// layerDetail is one layer of a source's simulcast, or its only stream.
type layerDetail struct {
	RID        string  `json:"rid"`
	Used       bool    `json:"used"`
	Sent       bool    `json:"sent"`
	Width      int     `json:"width"`
	Height     int     `json:"height"`
	FPS        float64 `json:"fps"`
	BitrateBPS int64   `json:"bitrate_bps"`
	Packets    uint64  `json:"packets"`
	Lost       uint64  `json:"lost"`
}

type agentDetail struct {
	AgentID          string       `json:"agent_id"`
	Connected        bool         `json:"connected"`
	AttachedAt       chatctx.Time `json:"attached_at"`
	Seq              uint64       `json:"seq"`
	ImagesSuperseded uint64       `json:"images_superseded"`
}

func (s *Session) detail() sessionDetail {
	s.mu.Lock()
	d := sessionDetail{
		ID: s.id, CreatedAt: chatctx.At(s.created), LogID: s.key, Seq: s.log.Head(),
		Sources: []sourceDetail{}, Agents: []agentDetail{}, Legs: []switcher.LegInfo{},
	}
	for _, a := range s.agents {
		d.Agents = append(d.Agents, agentDetail{a.id, true, chatctx.At(a.attached), a.seq.Load(), a.superseded.Load()})
	}
	publisher, published, ended, microphone := s.publisher, s.published, s.ended, s.microphone
	flowing := s.pipelines != nil && len(s.dialects) > 0 // its caller speaks over /v1/realtime
	s.mu.Unlock()
	d.Epoch, d.ActiveLeg, d.Legs = s.legs()
	slices.SortFunc(d.Agents, func(a, b agentDetail) int { return cmp.Compare(a.AgentID, b.AgentID) })
	now := time.Now()
	flowing = flowing || microphone.live(now)
	for _, src := range s.allSources() {
		sd := src.detail(now)
		d.Sources = append(d.Sources, sd)
		flowing = flowing || sd.State == string(frames.StateLive) || sd.State == string(frames.StateBlack)
	}
	if publisher != nil {
		if peer := publisher.current(); peer != nil {
			stats := peer.Stats()
			d.Publisher = &stats
		}
	}
	switch {
	case ended:
		d.State = stateEnded
	case flowing:
		d.State = stateLive
	case published || len(d.Sources) > 0:
		d.State = stateStalled
	default:
		d.State = stateConnecting
	}
	return d
}

// legs are the pipelines of the session, and which has the floor. Before anybody spoke, the built-in ones are registered.
func (s *Session) legs() (epoch uint64, active *string, legs []switcher.LegInfo) {
	legs = []switcher.LegInfo{}
	v := s.currentVoice()
	if v == nil {
		for _, p := range s.talksWith().Builtin {
			legs = append(legs, switcher.LegInfo{Name: p.Name, Kind: p.Kind, State: switcher.Registered, Provider: p.Provider})
		}
		return 0, nil, legs
	}
	if leg, ok := v.switcher.Active(); ok {
		active = &leg.Name
	}
	return v.switcher.Epoch(), active, append(legs, v.switcher.Legs()...)
}

func (src *source) detail(now time.Time) sourceDetail {
	msg := src.message()
	d := sourceDetail{Name: msg.Name, State: msg.State, Codec: msg.Codec, Width: msg.Width, Height: msg.Height, Layers: []layerDetail{}, Screen: msg.Screen, Frozen: msg.Frozen}
	track := src.current()
	if track == nil {
		return d
	}
	st := track.Stats()
	d.Codec, d.Policy, d.InEffect, d.PolicyReason = string(st.Codec), string(st.Policy), string(st.InEffect), st.PolicyReason
	d.FPS, d.BitrateBPS = st.FPS, int64(st.BitrateBPS)
	d.BitrateCapBPS = src.bitrateCap()
	d.Decoded, d.Delivered, d.Superseded = st.Decoded, st.Delivered, st.Superseded
	d.Dropped, d.Lost, d.Packets = st.FrameDrops.Total(), st.Lost, st.Packets
	d.KeyFrames, d.PolicySkipped = st.KeyFrames, st.PolicySkipped
	d.PLIs, d.PLIsAnswered, d.PLIAnswerMS = st.PLIs, st.PLIsAnswered, st.PLIAnswerTime.Milliseconds()
	d.Unchanged, d.CaptureErrorMS, d.CaptureClock = st.Unchanged, captureError(st.LastCaptureError), string(st.LastCaptureClock)
	for _, l := range st.Layers {
		d.Layers = append(d.Layers, layerDetail{l.RID, l.Used, l.Sent, l.Width, l.Height, l.FPS, int64(l.BitrateBPS), l.Packets, l.Lost})
	}
	d.LayerSwitches = st.LayerSwitches
	d.SpatialLayer, d.SpatialLayers, d.TemporalLayer, d.TemporalLayers = st.SpatialLayer, st.SpatialLayers, st.TemporalLayer, st.TemporalLayers
	if !st.LastCapturedAt.IsZero() {
		age := max(now.Sub(st.LastCapturedAt), 0).Milliseconds()
		d.LastCapturedAt, d.AgeMS = chatctx.At(st.LastCapturedAt), &age
	}
	return d
}

// restingDetail is a session that does not run. Its head is read where it is not known, as far as the store answers.
func (r *registry) restingDetail(ctx context.Context, e *restingSession) (sessionDetail, error) {
	seq, err := r.head(ctx, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	d := sessionDetail{
		ID: e.id, State: stateEnded, CreatedAt: chatctx.At(e.created), LogID: e.key, Seq: seq,
		Sources: []sourceDetail{}, Agents: []agentDetail{}, Legs: []switcher.LegInfo{},
	}
	if e.asleep {
		d.State = stateStalled
	}
	return d, err
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) {
	list := []sessionDetail{}
	live, resting := s.sessions.list(!r.URL.Query().Has(onlyHere))
	for _, session := range live {
		if covers(r.Context(), session.id) {
			list = append(list, session.detail())
		}
	}
	for _, e := range resting {
		if !covers(r.Context(), e.id) {
			continue
		}
		d, err := s.sessions.restingDetail(r.Context(), e)
		if err != nil {
			problem.Write(w, err)
			return
		}
		list = append(list, d)
	}
	writeJSON(w, http.StatusOK, map[string]any{"sessions": list})
}

// createSession makes a session before anybody publishes to it: 201, or 200 when it is there.
func (s *Server) createSession(w http.ResponseWriter, r *http.Request) {
	data, err := s.readBody(w, r)
	var body struct {
		ID string `json:"id"`
	}
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		err = decode(data, &body)
	}
	var session *Session
	var created bool
	if err == nil {
		session, created, err = s.obtain(r.Context(), body.ID)
	}
	if err != nil {
		problem.Write(w, err)
		return
	}
	status := http.StatusOK
	session.use()
	if created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/sessions/"+session.id)
	}
	writeJSON(w, status, session.detail())
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) {
	live, resting, err := s.sessions.lookup(r.PathValue("id"))
	if err == nil && live != nil {
		writeJSON(w, http.StatusOK, live.detail())
		return
	}
	s.writeResting(w, r, resting, err)
}

// writeResting answers with a session that does not run, or with why not.
func (s *Server) writeResting(w http.ResponseWriter, r *http.Request, e *restingSession, err error) {
	var d sessionDetail
	if err == nil {
		d, err = s.sessions.restingDetail(r.Context(), e)
	}
	if err != nil {
		problem.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, d)
}

// deleteSession ends a session and answers when it has ended; the second time it answers the same.
func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request) {
	live, resting, err := s.sessions.lookup(r.PathValue("id"))
	if err != nil {
		problem.Write(w, err)
		return
	}
	if live != nil {
		if err := s.sessions.endDeleted(r.Context(), live); err != nil {
			problem.Write(w, err)
			return
		}
		d := live.detail()
		d.State = stateEnded
		writeJSON(w, http.StatusOK, d)
		return
	}
	s.writeResting(w, r, resting, s.sessions.markDeleted(r.Context(), resting))
}

func (s *Server) debugSessions(w http.ResponseWriter, _ *http.Request) {
	live, resting := s.sessions.list(true)
	type tracks struct {
		sessionDetail
		Tracks []frames.TrackStats `json:"tracks"`
		Sound  *soundDetail        `json:"sound,omitempty"`
	}
	list := []tracks{}
	for _, session := range live {
		t := tracks{sessionDetail: session.detail(), Sound: session.currentVoice().soundDetail()}
		for _, src := range session.allSources() {
			if track := src.current(); track != nil {
				t.Tracks = append(t.Tracks, track.Stats())
			}
		}
		list = append(list, t)
	}
	writeJSON(w, http.StatusOK, map[string]any{"uptime_ms": time.Since(s.started).Milliseconds(), "live": list, "resting": len(resting)})
}

// conversation is the log of a session in either state; close it when it was opened for this reading only.
func (s *Server) conversation(ctx context.Context, id string) (log *chatctx.Log, close func(), err error) {
	live, resting, err := s.sessions.lookup(id)
	if err != nil {
		return nil, nil, err
	}
	if live != nil {
		return live.log, func() {}, nil
	}
	log, err = chatctx.OpenLog(ctx, chatctx.LogConfig{Store: s.cfg.Store, Session: resting.key})
	if err != nil {
		return nil, nil, contextProblem(err)
	}
	return log, log.Close, nil
}

func validUTF8(data []byte) error {
	if !utf8.Valid(data) {
		return problem.New(problem.InvalidJSON, "the body is not valid UTF-8")
	}
	return nil
}
