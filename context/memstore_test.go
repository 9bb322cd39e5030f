package chatctx_test

import (
	"testing"

	chatctx "sightline/context"
	"sightline/context/storetest"
)

func TestMemStore(t *testing.T) {
	storetest.Test(t, func(*testing.T) chatctx.Store { return chatctx.NewMemStore() })
}
