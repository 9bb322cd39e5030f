package gateway

import (
	"net/http"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/switcher"
)

// seedDetail is what the leg of an epoch was told before it began, as HTTP tells it.
type seedDetail struct {
	Epoch        uint64            `json:"epoch"`
	Mode         switcher.SeedMode `json:"mode"`
	Instructions string            `json:"instructions"`
	Items        chatctx.Items     `json:"items"`
}

// getSeed answers what the leg of an epoch was given; without an epoch, of the present one.
func (s *Server) getSeed(w http.ResponseWriter, r *http.Request) {
	seed, err := s.readSeed(r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, seed)
}

func (s *Server) readSeed(r *http.Request) (seedDetail, error) {
	asked, err := intQuery(r.URL.Query(), "epoch")
	if err != nil {
		return seedDetail{}, err
	}
	if asked != nil && *asked < 1 {
		return seedDetail{}, problem.New(problem.InvalidArgument, "epoch %d: allowed is 1 and above", *asked).WithField("epoch")
	}
	session, err := s.sessions.get(r.Context(), r.PathValue("id"))
	if err != nil {
		return seedDetail{}, err
	}
	v := session.currentVoice()
	if v == nil {
		return seedDetail{}, problem.New(problem.NotFound, "session %s has no pipeline yet", session.id).WithField("epoch")
	}
	d := seedDetail{Epoch: v.switcher.Epoch()}
	if asked != nil {
		d.Epoch = uint64(*asked)
	}
	seed, ok := v.switcher.Seed(d.Epoch)
	if !ok {
		return seedDetail{}, problem.New(problem.NotFound, "no seed of epoch %d is kept: there are those of the newest epochs since the gateway started", d.Epoch).WithField("epoch")
	}
	d.Mode, d.Instructions, d.Items = seed.Mode, seed.Instructions, seed.Items
	if d.Items == nil {
		d.Items = chatctx.Items{}
	}
	return d, nil
}
