package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// onlyHere is the query by which nodes ask each other for the sessions that run there.
const onlyHere = "here"

const listTimeout = 2 * time.Second

// listed is one session of a list, as far as merging needs to know it.
type listed struct {
	id   string
	live bool // it runs somewhere
	text json.RawMessage
}

// list answers GET /v1/sessions for all nodes: each is asked for what runs there, what rests is in the store.
func (n *nodes) list(w http.ResponseWriter, r *http.Request) {
	own := &buffered{header: http.Header{}}
	n.local.ServeHTTP(own, r)
	mine, err := readList(own.body.Bytes())
	if err != nil || own.status != http.StatusOK { // an error of its own
		own.to(w)
		return
	}
	all := map[string]listed{}
	for _, s := range mine {
		s.live = n.sessions.isLive(s.id)
		all[s.id] = s
	}
	for _, s := range n.listOthers(r) {
		if !all[s.id].live {
			all[s.id] = s
		}
	}
	list := make([]listed, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b listed) int {
		if a.live != b.live {
			return cmp.Compare(b.rank(), a.rank())
		}
		return cmp.Compare(a.id, b.id)
	})
	texts := make([]json.RawMessage, len(list))
	for i, s := range list {
		texts[i] = s.text
	}
	for name, values := range own.header {
		w.Header()[name] = values
	}
	writeJSON(w, http.StatusOK, map[string]any{"sessions": texts})
}

func (l listed) rank() int {
	if l.live {
		return 1
	}
	return 0
}

// listOthers asks every other node at once; who does not answer in time is left out, what runs there is then shown as it rests.
func (n *nodes) listOthers(r *http.Request) (all []listed) {
	ctx, cancel := context.WithTimeout(r.Context(), listTimeout)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, peer := range n.node.Peers() {
		asking.Go(func() {
			list, err := n.listOf(ctx, r, peer.ID)
			if err != nil {
				n.log.Warn("another node does not tell its sessions", "node", peer.ID, keyError, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, list...)
		})
	}
	asking.Wait()
	return all
}

func (n *nodes) listOf(ctx context.Context, r *http.Request, node string) ([]listed, error) {
	out, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node+":80/v1/sessions?"+onlyHere, nil)
	if err != nil {
		return nil, err
	}
	out.Header, out.Host = r.Header.Clone(), r.Host
	res, err := n.transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", res.StatusCode)
	}
	list, err := readList(data)
	for i := range list {
		list[i].live = true
	}
	return list, err
}

func readList(data []byte) ([]listed, error) {
	var answer struct {
		Sessions []json.RawMessage `json:"sessions"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	var all []listed
	for _, text := range answer.Sessions {
		var s struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		all = append(all, listed{id: s.ID, text: text})
	}
	return all, nil
}

// buffered keeps an answer.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *buffered) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(status int) { b.status = cmp.Or(b.status, status) }

// Write implements http.ResponseWriter.
func (b *buffered) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

func (b *buffered) to(w http.ResponseWriter) {
	for name, values := range b.header {
		w.Header()[name] = values
	}
	w.WriteHeader(cmp.Or(b.status, http.StatusOK))
	_, _ = w.Write(b.body.Bytes())
}
