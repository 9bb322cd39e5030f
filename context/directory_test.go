package chatctx_test

import (
	"testing"

	chatctx "sightline/context"
	"sightline/context/storetest"
)

func TestMemDirectory(t *testing.T) {
	storetest.TestDirectory(t, func(*testing.T) (chatctx.Directory, func() chatctx.Directory) { return new(chatctx.MemDirectory), nil })
}
