package switcher

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRespondAsksTheLegThatHasTheFloor: it is given the floor again, which asks for an answer.
func TestRespondAsksTheLegThatHasTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{}, nil)
		time.Sleep(time.Second)
		l := c.leg("local")
		before := len(inputsOf[FloorIn](l.inputs))
		c.now().Respond()
		time.Sleep(time.Second)
		if floors := inputsOf[FloorIn](l.inputs); len(floors) != before+1 || floors[before] != (FloorIn{Respond: true}) {
			t.Errorf("the leg was given %v", floors)
		}
		c.end()
	})
}
