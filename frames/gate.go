package frames

// trustedRun is how many picture ids must count up by one before a gap between them means anything.
const trustedRun = 8

// pictureIDs is the second gate of the chain, behind the sequence numbers: a relay can take frames out and number its packets anew,
// which only the picture ids betray. Senders whose ids do not count are let pass.
type pictureIDs struct {
	has  bool
	last uint16
	mask uint16
	run  int
}

// follows reports whether the frame that starts with p may follow the one before it.
func (g *pictureIDs) follows(p *packet) bool {
	if !p.hasPictureID {
		*g = pictureIDs{}
		return true
	}
	known := g.has && g.mask == p.pictureMask
	want := (g.last + 1) & g.mask
	g.has, g.last, g.mask = true, p.pictureID, p.pictureMask
	if !known {
		return true
	}
	if p.pictureID == want {
		g.run = min(g.run+1, trustedRun)
		return true
	}
	trusted := g.run == trustedRun
	g.run = 0
	return !trusted
}

// skip forgets the last id but not that ids can be trusted: after a hole the next one may be any.
func (g *pictureIDs) skip() { g.has = false }
