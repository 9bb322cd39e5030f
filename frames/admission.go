package frames

import "time"

const (
	topLayer  = 7                      // of a temporal.id
	burstWait = 200 * time.Millisecond // how long the frames after a key frame are waited for
)

// admission says frame by frame what is decoded, so that no decoder gets a frame that refers to one it has not seen (G10). Pure.
type admission struct {
	open  bool      // the decoder has, or will get, all that the next frame refers to
	level uint8     // the highest layer in time of which that is so
	left  int       // frames after the key frame that are still wanted; keyframe only
	hold  int       // of these, how many until the picture is good
	until time.Time // when they are no longer waited for
}

// admit reports whether f is to be decoded under v. wanted: somebody wants the picture of a key frame that comes now; watch: how many
// frames after it are to be looked at. It marks f.
func (g *admission) admit(f *frame, v choice, wanted bool, watch int) bool {
	if f.key {
		g.open, g.level = true, topLayer
	}
	if v.policy == PolicyKeyframe {
		return g.keyframe(f, v, wanted, watch)
	}
	g.left, g.hold = 0, 0
	t := f.temporal
	upper := t.unreferenced || t.known && t.id > 0
	switch {
	case f.key:
		return true
	case !g.open:
		return false
	case v.policy == PolicyTemporal && upper:
		if t.known && !t.unreferenced {
			g.level = min(g.level, t.id-1)
		}
		return false
	case !t.known || t.id <= g.level:
		return true
	case t.sync && t.id == g.level+1:
		g.level = t.id
		return true
	}
	return false
}

func (g *admission) keyframe(f *frame, v choice, wanted bool, watch int) bool {
	switch {
	case f.key && wanted:
		g.left, g.hold, g.until = max(v.after, watch), v.after, f.receivedAt.Add(burstWait)
		f.hold, f.watch = v.after > 0, watch > 0
		return true
	case f.key, !g.open, g.left == 0, f.receivedAt.After(g.until):
		g.open, g.left, g.hold = false, 0, 0
		return false
	}
	g.left--
	g.hold = max(g.hold-1, 0)
	f.hold, f.watch = g.hold > 0, true
	return true
}

// expecting reports whether more frames of a key frame's burst are to come.
func (g *admission) expecting(now time.Time) bool { return g.open && g.left > 0 && now.Before(g.until) }

// layerMeter measures the base layer in time over windows of two seconds. Pure; time is passed in.
type layerMeter struct {
	from        time.Time
	base, upper int
	fps         float64 // of the base layer; 0: there are no others
}

const layerWindow = 2 * time.Second

func (m *layerMeter) observe(f *frame) {
	if d := f.receivedAt.Sub(m.from); d >= layerWindow {
		m.fps = 0
		if d < 2*layerWindow && m.upper > 0 && m.base > 0 {
			m.fps = float64(m.base) / d.Seconds()
		}
		*m = layerMeter{from: f.receivedAt, fps: m.fps}
	}
	if f.temporal.unreferenced || f.temporal.known && f.temporal.id > 0 {
		m.upper++
	} else {
		m.base++
	}
}
