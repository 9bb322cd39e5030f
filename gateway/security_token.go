package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"

	"sightline/gateway/auth"
)

// openAIKey begins the subprotocol by which browsers' OpenAI clients give a key.
const openAIKey = "openai-insecure-api-key."

// tokenOf is the request's bearer token: of the Authorization header; of a socket, for which a browser can set none, also of the
// query or of the subprotocols. What is in a query of anything else is not taken: it would stand in logs and histories.
func tokenOf(r *http.Request) (token string, given bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) != ""
	}
	if !isUpgrade(r) {
		return "", false
	}
	if token := r.URL.Query().Get("access_token"); token != "" {
		return token, true
	}
	for _, p := range websocket.Subprotocols(r) {
		if token, ok := strings.CutPrefix(p, openAIKey); ok && token != "" {
			return token, true
		}
	}
	return "", false
}

func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

func isUnavailable(err error) bool { return errors.Is(err, auth.ErrUnavailable) }
