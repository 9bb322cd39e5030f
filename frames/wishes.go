package frames

// wantedSide is the largest longer side that any subscriber or waiting request wants, in pixels: MaxSide for the picture's own size, 0 when
// nobody wants anything. t.mu is held.
func (t *Track) wantedSide() (side int) {
	for _, s := range t.subs {
		side = max(side, s.key.side())
	}
	for _, w := range t.waiters {
		side = max(side, w.key.side())
	}
	return side
}

// side is the longer side of an image of these options, in pixels.
func (k optionsKey) side() int {
	if !k.resize {
		return MaxSide
	}
	return max(k.width, k.height)
}
