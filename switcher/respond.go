package switcher

// Respond asks the leg that has the floor to answer to what stands last in the conversation, as somebody does who has put things
// there that are no questions. It does not wait; while no leg has the floor, or the next is about to take it, nothing happens.
func (s *Switcher) Respond() {
	s.box.put(evBarrier{func() {
		if r := s.core.active; r != nil && !s.core.holding() {
			s.perform(aGive{epoch: r.epoch, in: FloorIn{Respond: true}})
		}
	}})
}
