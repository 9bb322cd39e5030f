package sound

import "time"

const (
	delayMargin = 10 * time.Millisecond // held beyond the worst delay of late
	baseHalf    = time.Second           // the fastest way is looked for in the last one to two of these
	peakHalf    = 2 * time.Second       // the slowest packet likewise
)

// delays measures how regularly packets come, and says how long sound is to be held so that few come too late. Pure.
type delays struct {
	low, high time.Duration // bounds of target

	began         time.Duration // the current halves
	peakBegan     time.Duration
	base, oldBase time.Duration // shortest transit of this half and the one before
	peak, oldPeak time.Duration // longest transit beyond the shortest
	known         bool
}

// reset forgets what was measured: timestamps have begun anew.
func (d *delays) reset() { *d = delays{low: d.low, high: d.high} }

// observe takes the transit of a packet, its arrival minus its timestamp, at the time of its arrival.
func (d *delays) observe(transit, at time.Duration) {
	if !d.known {
		*d = delays{low: d.low, high: d.high, began: at, peakBegan: at, base: transit, oldBase: transit, known: true}
	}
	if passed := at - d.began; passed >= baseHalf {
		d.oldBase, d.base, d.began = d.base, transit, at
		if passed >= 2*baseHalf {
			d.oldBase = transit
		}
	}
	d.base = min(d.base, transit)
	if passed := at - d.peakBegan; passed >= peakHalf {
		d.oldPeak, d.peak, d.peakBegan = d.peak, 0, at
		if passed >= 2*peakHalf {
			d.oldPeak = 0
		}
	}
	d.peak = max(d.peak, transit-d.fastest())
}

// fastest is the transit of late that was the shortest: what is held is held from there on.
func (d *delays) fastest() time.Duration { return min(d.base, d.oldBase) }

// target is how long after the fastest way sound should be played.
func (d *delays) target() time.Duration {
	return min(max(max(d.peak, d.oldPeak)+delayMargin, d.low), d.high)
}
