package frames

import (
	"testing"

	"sightline/frames/internal/cmem"
	"sightline/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m, cmem.InUse) }
