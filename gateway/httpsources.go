package gateway

import (
	"net/http"
	"time"

	"sightline/frames"
	"sightline/gateway/problem"
)

// changeSource sets what is decoded of a source, and answers with the source.
func (s *Server) changeSource(w http.ResponseWriter, r *http.Request) {
	d, err := s.setPolicy(w, r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, d)
}

func (s *Server) setPolicy(w http.ResponseWriter, r *http.Request) (sourceDetail, error) {
	session, err := s.sessions.get(r.Context(), r.PathValue("id"))
	if err != nil {
		return sourceDetail{}, err
	}
	data, err := s.readBody(w, r)
	var body struct {
		Policy *string `json:"policy"`
	}
	if err == nil {
		err = decode(data, &body)
	}
	if err != nil {
		return sourceDetail{}, err
	}
	if body.Policy == nil {
		return sourceDetail{}, problem.New(problem.InvalidArgument, `policy is missing: the body is {"policy":"auto"}, or keyframe, temporal or full`).WithField("policy")
	}
	policy, err := frames.ParsePolicy(*body.Policy)
	if err != nil {
		return sourceDetail{}, problem.New(problem.InvalidArgument, "%s", err).WithField("policy")
	}
	name := r.PathValue("name")
	src := session.source(name)
	if src == nil {
		return sourceDetail{}, noSource(session, name)
	}
	if err := src.setPolicy(policy); err != nil {
		return sourceDetail{}, err
	}
	return src.detail(time.Now()), nil
}

// setPolicy holds for the present track and those that follow it under this name.
func (src *source) setPolicy(p frames.Policy) error {
	src.mu.Lock()
	src.policy = p
	track := src.track
	src.mu.Unlock()
	if track == nil {
		return nil
	}
	return track.SetPolicy(p)
}

// decodes is the policy for the source's next track.
func (src *source) decodes(fallback frames.Policy) frames.Policy {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.policy == "" {
		return fallback
	}
	return src.policy
}
