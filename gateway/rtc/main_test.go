package rtc

import (
	"os"
	"testing"

	"sightline/internal/leakcheck"
)

func TestMain(m *testing.M) { os.Exit(leakcheck.Run(m, leakcheck.Check{})) }
