package switcher

import (
	"testing"

	"sightline/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m, nil) }
