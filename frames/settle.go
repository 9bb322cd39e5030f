package frames

import "time"

const neverFor = time.Minute // how long what a hopeless look has found holds

const (
	watchFrames   = 4        // looked at after a key frame, to see how coarse it was
	watchSoon     = 4        // key frames from one look to the next, at first; then four times as many, each time that the same is found
	watchSeldom   = 256      // and at most: a look costs as much as decoding watchFrames
	sampleBytes   = 48 << 10 // of luma kept of each picture that is looked at
	segment       = 16       // pixels of a row that are still or not
	stillError    = 1.0      // mean squared difference up to which they are
	stillShare    = 0.15     // of the picture must be still for it to say anything
	settledError  = 3.3      // mean squared difference from which on a picture is as good as those after it: 43 dB
	hopelessError = 13       // that of the last picture but three when no end is in sight: 37 dB

	makesUp   = 2.4 // times its usual size: an encoder makes up for a coarse key frame with the frame after it
	usualPart = 16  // smooths the usual size over about so many frames
)

// catchUp sees from sizes alone how many frames an encoder needs to make up for a key frame. It costs nothing, since all frames are
// assembled. Pure.
type catchUp struct {
	usual [topLayer + 1]float64 // bytes of a frame, by its layer in time
	since int                   // frames since the key frame
	after int
	open  bool // the frames since are still counted
}

// frame takes the next frame; told says that after, the number of frames after a key frame until its picture is good, is known.
func (c *catchUp) frame(f *frame) (after int, told bool) {
	if f.key {
		c.since, c.after, c.open = 0, 0, true
		return 0, false
	}
	size, usual := float64(len(f.data)), &c.usual[f.temporal.id&topLayer]
	c.since++
	if c.since > maxAfterKey || !c.open && c.since > 1 {
		if *usual == 0 {
			*usual = size
		}
		*usual += (size - *usual) / usualPart
	}
	if !c.open || *usual == 0 {
		return 0, false
	}
	large := size >= makesUp**usual
	if large {
		c.after = c.since
	}
	if c.since < maxAfterKey && (large || f.temporal.known) {
		return 0, false
	}
	c.open = false
	return c.after, true
}

// settling looks at the pictures of a key frame and of the frames after it. What does not change in the last three should not have changed
// before either: where it did, the encoder was making up for a coarse key frame. Pure.
type settling struct {
	width, height int
	shots         [][]byte // rows of luma: of the key frame, and of each one after it
}

// begin starts with a key frame's picture.
func (s *settling) begin(p *Picture) {
	s.width, s.height, s.shots = p.Width, p.Height, nil
	s.add(p)
}

// add takes the next picture; true: it was the last that is needed.
func (s *settling) add(p *Picture) (done bool) {
	if s.width == 0 || p.Width != s.width || p.Height != s.height {
		s.stop()
		return false
	}
	rows := min(max(sampleBytes/p.Width, 1), p.Height)
	shot := make([]byte, 0, rows*p.Width)
	for i := range rows {
		y := (2*i + 1) * p.Height / (2 * rows)
		shot = append(shot, p.Y[y*p.YStride:y*p.YStride+p.Width]...)
	}
	s.shots = append(s.shots, shot)
	return len(s.shots) > watchFrames
}

// stop forgets the pictures.
func (s *settling) stop() { *s = settling{} }

// result is how many frames after the key frame its picture was as good as those that followed, at best 0; ok is false when too little stood
// still to tell.
func (s *settling) result() (after int, ok bool) {
	n := len(s.shots)
	last, before, third := s.shots[n-1], s.shots[n-2], s.shots[n-3]
	errors := make([]float64, n-3)
	still, all := 0, 0
	for at := 0; at+segment <= len(last); at += segment {
		all++
		if difference(before[at:], last[at:]) > stillError || difference(third[at:], last[at:]) > stillError {
			continue
		}
		still++
		for i := range errors {
			errors[i] += difference(s.shots[i][at:], last[at:])
		}
	}
	if float64(still) < stillShare*float64(all) || still == 0 {
		return 0, false
	}
	for i := range errors {
		if errors[i]/float64(still) <= settledError {
			return i, true
		}
	}
	if errors[len(errors)-1]/float64(still) > hopelessError {
		return neverSettle, true
	}
	return len(errors), true
}

// difference is the mean squared difference of two segments.
func difference(a, b []byte) float64 {
	sum := 0
	for i := range segment {
		d := int(a[i]) - int(b[i])
		sum += d * d
	}
	return float64(sum) / segment
}
