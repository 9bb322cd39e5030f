package switcher

import (
	"net/http"
	"os"
	"testing"

	"sightline/internal/leakcheck"
)

func TestMain(m *testing.M) {
	os.Exit(leakcheck.Run(m, leakcheck.Check{Settle: http.DefaultTransport.(*http.Transport).CloseIdleConnections}))
}
