package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sightline/switcher"
)

// voiceMetrics count what sessions say and which pipelines say it.
type voiceMetrics struct {
	switches   *prometheus.CounterVec
	switchTime prometheus.Histogram
	lost       prometheus.Counter
	tools      *prometheus.CounterVec
	toolTime   prometheus.Histogram
	notices    *prometheus.CounterVec
	turns      *prometheus.CounterVec
	response   prometheus.Histogram
	stages     *prometheus.HistogramVec
	tries      *prometheus.CounterVec
}

func newVoiceMetrics(r *prometheus.Registry) *voiceMetrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sightline_" + name, Help: help}, labels)
	}
	buckets := []float64{.005, .01, .02, .05, .1, .2, .35, .5, .75, 1, 1.5, 2, 3, 5, 10, 30}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sightline_" + name, Help: help, Buckets: buckets})
	}
	m := &voiceMetrics{
		switches:   vec("pipeline_switches_total", "Switches of pipelines, by how they ended: committed, noop, or the code of the abort.", "result"),
		switchTime: histogram("pipeline_switch_seconds", "From the request of a switch to its commit."),
		lost:       prometheus.NewCounter(prometheus.CounterOpts{Name: "sightline_pipeline_losses_total", Help: "Legs that died while they had the floor."}),
		tools:      vec("tool_calls_total", "Tool calls, by outcome: ok, error, cancelled.", "outcome"),
		toolTime:   histogram("tool_seconds", "From a tool's call to its result."),
		notices:    vec("leg_notices_total", "What legs reported that ended nothing: retries, fall-backs, images left out; by code.", "code"),
		turns:      vec("turns_total", "Turns of agents, by how they ended: heard, interrupted.", "outcome"),
		response:   histogram("turn_response_seconds", "From the end of the caller's turn to the first sound of the answer."),
	}
	m.stages = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sightline_stage_seconds", Buckets: buckets,
		Help: "What a caller waits for a stage of a turn: stt from the end of the sound to the text, llm to the first token, tts to the first sound of a phrase."}, []string{"stage"})
	m.tries = vec("stage_tries_total", "Requests to engines, by stage and result: ok, cancelled, or the code of the failure.", "stage", "result")
	r.MustRegister(m.stages, m.tries, m.switches, m.switchTime, m.lost, m.tools, m.toolTime, m.notices, m.turns, m.response)
	return m
}

// voiceTimes are the beginnings that one session's events are measured from. It is used by the switcher's goroutine only.
type voiceTimes struct {
	callerDone time.Time // end of the caller's turn that has no answer yet
	tools      map[string]time.Time
}

// event counts one event of a session.
func (m *voiceMetrics) event(e switcher.Event, t *voiceTimes) {
	switch e.Kind {
	case switcher.PipelineCommitted:
		result := "committed"
		if e.Result != nil && e.Result.Noop {
			result = "noop"
		} else if e.Result != nil {
			m.switchTime.Observe(float64(e.Result.SwitchMS) / 1000)
		}
		m.switches.WithLabelValues(result).Inc()
	case switcher.PipelineAborted:
		code := string(switcher.SwitchAborted)
		if e.Err != nil {
			code = string(e.Err.Code)
		}
		m.switches.WithLabelValues(code).Inc()
	case switcher.PipelineLost:
		m.lost.Inc()
	case switcher.Noticed:
		m.notices.WithLabelValues(clip(e.Code, 64)).Inc()
	case switcher.StageEnded:
		m.stage(e.Stage)
	case switcher.TurnPlayed:
		if !e.Final {
			return
		}
		outcome := "heard"
		if e.Interrupted {
			outcome = "interrupted"
		}
		m.turns.WithLabelValues(outcome).Inc()
	case switcher.SpeechStarted, switcher.SpeechStopped:
		m.speech(e, t)
	case switcher.ToolCalled, switcher.ToolAnswered, switcher.ToolCancelled:
		m.tool(e, t)
	}
}

func (m *voiceMetrics) stage(s *switcher.StageOut) {
	result := s.Code
	if result == "" {
		result = "ok"
	}
	m.tries.WithLabelValues(s.Stage, result).Inc()
	switch {
	case s.First.IsZero():
	case s.Stage != switcher.StageSTT:
		m.stages.WithLabelValues(s.Stage).Observe(s.First.Sub(s.Began).Seconds())
	case s.Code == "":
		m.stages.WithLabelValues(s.Stage).Observe(s.Ended.Sub(s.First).Seconds())
	}
}

func (m *voiceMetrics) speech(e switcher.Event, t *voiceTimes) {
	switch {
	case e.Who == "caller" && e.Kind == switcher.SpeechStarted:
		t.callerDone = time.Time{}
	case e.Who == "caller":
		t.callerDone = e.At
	case e.Kind == switcher.SpeechStarted && !t.callerDone.IsZero():
		m.response.Observe(e.At.Sub(t.callerDone).Seconds())
		t.callerDone = time.Time{}
	}
}

func (m *voiceMetrics) tool(e switcher.Event, t *voiceTimes) {
	if e.Call == nil {
		return
	}
	if t.tools == nil {
		t.tools = map[string]time.Time{}
	}
	id := e.Call.CallID
	switch e.Kind {
	case switcher.ToolCalled:
		t.tools[id] = e.At
		return
	case switcher.ToolCancelled:
		m.tools.WithLabelValues("cancelled").Inc()
	case switcher.ToolAnswered:
		outcome := "ok"
		if e.IsError {
			outcome = "error"
		}
		m.tools.WithLabelValues(outcome).Inc()
		if began, ok := t.tools[id]; ok {
			m.toolTime.Observe(e.At.Sub(began).Seconds())
		}
	}
	delete(t.tools, id)
}
