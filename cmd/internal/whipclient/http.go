package whipclient

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds an SDP answer, in bytes.
const maxAnswer = 256 << 10

// HTTPError is the gateway's refusal.
type HTTPError struct {
	Status int
	Code   string // of the problem JSON, empty when there was none
	Detail string
}

func (e *HTTPError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("the gateway answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the gateway answered %d: %s", e.Status, e.Detail)
}

// post sends the offer and gives the answer and the absolute session URL (RFC 9725 §4.2).
func (p *Publisher) post(ctx context.Context, offer string) (answer, location string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, strings.NewReader(offer))
	if err != nil {
		return "", "", err
	}
	request.Header.Set("Content-Type", "application/sdp")
	p.authorize(request)
	response, err := p.cfg.HTTP.Do(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", "", fmt.Errorf("answer: %w", err)
	}
	if response.StatusCode != http.StatusCreated {
		return "", "", refusal(response.StatusCode, body)
	}
	to, err := response.Location()
	if err != nil {
		return "", "", fmt.Errorf("the answer has no session URL: %w", err)
	}
	return string(body), to.String(), nil
}

func refusal(status int, body []byte) error {
	e := &HTTPError{Status: status}
	var problem struct{ Code, Detail string }
	if json.Unmarshal(body, &problem) == nil {
		e.Code, e.Detail = problem.Code, problem.Detail
	}
	return e
}

// remove deletes the session; the gateway would notice our going anyway, only later.
func (p *Publisher) remove() {
	location := p.Location()
	if _, err := url.Parse(location); err != nil || location == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, location, nil)
	if err != nil {
		return
	}
	p.authorize(request)
	response, err := p.cfg.HTTP.Do(request)
	if err != nil {
		p.cfg.Log.Debug("delete the session", "err", err)
		return
	}
	response.Body.Close()
}

func (p *Publisher) authorize(request *http.Request) {
	if p.cfg.Token != "" {
		request.Header.Set("Authorization", "Bearer "+p.cfg.Token)
	}
}
