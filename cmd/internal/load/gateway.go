package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// remote asks the gateway over HTTP.
type remote struct {
	url   string
	token func(session string) (string, error) // "*": for all
	http  *http.Client
}

// maxBody bounds an answer, in bytes.
const maxBody = 64 << 20

func (g *remote) do(ctx context.Context, method, path, session string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(g.url, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	token, err := g.token(session)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := g.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err == nil && answer.StatusCode/100 != 2 {
		var problem struct{ Code, Detail string }
		_ = json.Unmarshal(body, &problem) // what is no problem JSON has neither
		err = &httpError{answer.StatusCode, problem.Code, problem.Detail}
	}
	return body, err
}

// httpError is a refusal.
type httpError struct {
	status       int
	code, detail string
}

func (e *httpError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the gateway answered %d %s %s", e.status, http.StatusText(e.status), e.detail))
}

// figures are what /metrics tells at one moment: by name, summed over labels, and by name with labels.
type figures map[string]float64

func (g *remote) metrics(ctx context.Context) (figures, error) {
	body, err := g.do(ctx, http.MethodGet, "/metrics", "*")
	if err != nil {
		return nil, err
	}
	return parseMetrics(string(body)), nil
}

// parseMetrics reads the text form of Prometheus as far as it is written here: no timestamps.
func parseMetrics(text string) figures {
	f := figures{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			continue
		}
		full := strings.TrimSpace(line[:at])
		name, _, labelled := strings.Cut(full, "{")
		f[name] += v
		if labelled {
			f[full] = v
		}
	}
	return f
}

// conversation is a session's context as HTTP tells it.
type conversation struct {
	Seq     uint64          `json:"seq"`
	Context json.RawMessage `json:"context"`
}

func (g *remote) conversation(ctx context.Context, session string) (c conversation, err error) {
	body, err := g.do(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/context?format=items", session)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(body, &c)
}

func (g *remote) delete(ctx context.Context, session string) error {
	_, err := g.do(ctx, http.MethodDelete, "/v1/sessions/"+url.PathEscape(session), session)
	return err
}
