package frames

import (
	"os"
	"testing"

	"sightline/frames/internal/cmem"
	"sightline/internal/leakcheck"
)

func TestMain(m *testing.M) { os.Exit(leakcheck.Run(m, leakcheck.Check{CBytes: cmem.InUse})) }
