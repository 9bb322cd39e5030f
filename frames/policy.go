package frames

import (
	"fmt"
	"time"
)

// Policy says which frames are decoded.
type Policy string

// The policies. All but PolicyIdle can be set; PolicyAuto is never in effect.
const (
	PolicyAuto     Policy = "auto"     // the cheapest that gives what is wanted; the default
	PolicyKeyframe Policy = "keyframe" // for each image the sender is asked for a key frame, and no others are decoded
	PolicyTemporal Policy = "temporal" // the base layer in time
	PolicyFull     Policy = "full"     // every frame
	PolicyIdle     Policy = "idle"     // nobody watches: packets are counted, nothing is assembled or decoded
)

// ParsePolicy takes what can be set; the error names it.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case PolicyAuto, PolicyKeyframe, PolicyTemporal, PolicyFull:
		return p, nil
	}
	return "", fmt.Errorf("policy %q: must be %s, %s, %s or %s", s, PolicyAuto, PolicyKeyframe, PolicyTemporal, PolicyFull)
}

const (
	maxKeyFPS   = 3.001           // senders honour one request in 300 ms
	maxKeyShare = 0.2             // of the sender's bits; above, all its pictures suffer (a page of small text at 0.7 Mb/s: 9 dB)
	fewFrames   = 2.0             // arriving, for each one that would be decoded: not worth asking for
	dwell       = 3 * time.Second // how long what is cheaper must have been better before it is changed to
	slack       = 1.3             // between the thresholds of changing to key frames and of changing back
	neverSettle = -1              // of situation.settle
	maxAfterKey = 4               // frames decoded after a key frame, at most
	baseEnough  = 0.95            // of the wanted rate
)

// situation is all that a policy is chosen from.
type situation struct {
	setting  Policy
	in       Policy  // what is in effect
	fps      float64 // images per second of the most demanding subscription; 0: there is none
	asking   bool    // a request for an image waits, or one came a moment ago
	takesPLI bool    // the sender agreed to send key frames on request
	answers  bool    // and does so in time, as far as is known
	arriving float64 // frames per second; 0: not known
	base     float64 // frames per second of the base layer in time; 0: no layers are signalled
	settle   int     // frames after a key frame until its picture is as good as those after it; neverSettle: too many
	keyBits  float64 // of a key frame; 0: not known
	bps      float64 // what the sender sends; 0: not known
}

// choice is what is decoded, and why.
type choice struct {
	policy Policy
	after  int // frames decoded after each key frame; keyframe only
	reason string
	soft   bool // of auto: by a measurement that may waver
}

// decide chooses for a situation. Pure.
func decide(s situation) choice {
	if s.fps == 0 && !s.asking {
		return choice{policy: PolicyIdle, reason: "nobody watches"}
	}
	unanswered := ""
	switch {
	case !s.takesPLI:
		unanswered = "the sender takes no requests for key frames"
	case !s.answers:
		unanswered = "the sender does not answer requests for key frames in time"
	}
	after := min(max(s.settle, 0), maxAfterKey)
	switch {
	case s.setting == PolicyFull:
		return choice{policy: PolicyFull, reason: "set"}
	case s.setting == PolicyTemporal && s.base > 0:
		return choice{policy: PolicyTemporal, reason: "set"}
	case s.setting == PolicyTemporal:
		return choice{policy: PolicyFull, reason: "temporal is set, but the sender signals no layers in time"}
	case s.setting == PolicyKeyframe && unanswered == "":
		if s.settle == neverSettle {
			after = maxAfterKey
		}
		return choice{policy: PolicyKeyframe, after: after, reason: "set"}
	case unanswered != "":
		return s.without(unanswered, false)
	case s.fps > maxKeyFPS:
		return s.without(fmt.Sprintf("more than %.0f images a second are wanted", maxKeyFPS), false)
	}
	if why := s.whyNot(after); why != "" {
		return s.without(why, true)
	}
	return choice{policy: PolicyKeyframe, after: after, reason: "the sender answers requests for key frames"}
}

// whyNot says what speaks against key frames where they can be had.
func (s *situation) whyNot(after int) string {
	more := 1.0
	if s.in == PolicyKeyframe {
		more = slack
	}
	switch {
	case s.settle == neverSettle:
		return "key frames of this source are coarse for too long"
	case s.arriving > 0 && s.arriving*more < fewFrames*s.fps*float64(1+after):
		return "the sender sends few frames more than would be decoded"
	case s.bps > 0 && s.keyBits*s.fps > maxKeyShare*more*s.bps:
		return "key frames would take too much of what the sender sends"
	}
	return ""
}

// without is the cheapest that needs no key frames on request.
func (s *situation) without(why string, soft bool) choice {
	if s.base > 0 && s.base >= baseEnough*s.fps {
		return choice{policy: PolicyTemporal, reason: why, soft: soft}
	}
	return choice{policy: PolicyFull, reason: why, soft: soft}
}

// chooser keeps decisions from wavering: but for the first seconds, what rests on a measurement, and every change back to key frames, must
// have been so for some time. Pure; time is passed in.
type chooser struct {
	now   choice
	began time.Time // when somebody began to watch
	other Policy    // what would be better
	since time.Time // and since when
}

// step gives what is in effect from now on.
func (c *chooser) step(s situation, at time.Time) choice {
	s.in = c.now.policy
	v := decide(s)
	if c.now.policy == PolicyIdle || c.now.policy == "" {
		c.began = at
	}
	hard := at.Sub(c.began) < dwell || v.policy == PolicyIdle || s.setting != PolicyAuto || !v.soft && v.policy != PolicyKeyframe
	switch {
	case v.policy == c.now.policy || hard:
		c.now, c.other = v, ""
	case c.other != v.policy:
		c.other, c.since = v.policy, at
	case at.Sub(c.since) >= dwell:
		c.now, c.other = v, ""
	}
	return c.now
}
