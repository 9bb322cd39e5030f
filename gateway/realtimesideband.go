package gateway

import (
	"net/http"

	"sightline/gateway/problem"
)

func (s *Server) openSideband(w http.ResponseWriter, r *http.Request, id string) error {
	_ = w
	_, err := s.sessions.get(r.Context(), id)
	if err != nil {
		return err
	}
	return problem.New(problem.NotFound, "sidebands are not served yet").WithField("call_id")
}
