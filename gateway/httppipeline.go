package gateway

import (
	"net/http"
	"strings"

	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// switchPipeline answers when the switch is done or has failed; with Prefer: respond-async (RFC 7240 §4.1) as soon as it is under way.
func (s *Server) switchPipeline(w http.ResponseWriter, r *http.Request) {
	result, status, err := s.askSwitch(w, r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	if status == http.StatusAccepted {
		w.Header().Set("Preference-Applied", "respond-async")
	}
	writeJSON(w, status, result)
}

func (s *Server) askSwitch(w http.ResponseWriter, r *http.Request) (result any, status int, err error) {
	data, err := s.readBody(w, r)
	if err != nil {
		return nil, 0, err
	}
	var m wire.PipelineSwitch
	if err := decode(data, &m); err != nil {
		return nil, 0, err
	}
	request, err := switchRequest(m, authorOf(r.Context()))
	if err != nil {
		return nil, 0, err
	}
	session, err := s.sessions.get(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, 0, err
	}
	v, err := session.speak()
	if err != nil {
		return nil, 0, err
	}
	under, err := v.switcher.Begin(r.Context(), request)
	if err != nil {
		return nil, 0, switchProblem(err)
	}
	for _, p := range r.Header.Values("Prefer") {
		if strings.Contains(strings.ToLower(p), "respond-async") {
			return wire.Ack{Type: wire.TypeAck, OpID: m.OpID, Seq: under.Seq}, http.StatusAccepted, nil
		}
	}
	done, err := under.Wait(r.Context())
	if err != nil {
		return nil, 0, switchProblem(err)
	}
	return switchResult(done), http.StatusOK, nil
}
