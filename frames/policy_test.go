package frames

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParsePolicy(t *testing.T) {
	for _, s := range []string{"auto", "keyframe", "temporal", "full"} {
		if p, err := ParsePolicy(s); err != nil || string(p) != s {
			t.Errorf("%q: %q, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "idle", "Full", "none"} {
		if _, err := ParsePolicy(s); err == nil || !strings.Contains(err.Error(), "must be auto, keyframe, temporal or full") {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := NewTrack(TrackConfig{Policy: "idle"}); err == nil {
		t.Error("a track with the policy idle")
	}
}

// camera is a sender that answers, sends 30 frames/s of 2.5 Mb/s, and somebody wants an image a second.
func camera(change func(*situation)) situation {
	s := situation{setting: PolicyAuto, fps: 1, takesPLI: true, answers: true, arriving: 30, keyBits: 160e3, bps: 2.5e6}
	if change != nil {
		change(&s)
	}
	return s
}

func TestDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*situation)
		want   Policy
		after  int
		reason string
	}{
		"a camera, one image a second":           {nil, PolicyKeyframe, 0, "answers"},
		"nobody watches":                         {func(s *situation) { s.fps = 0 }, PolicyIdle, 0, "nobody"},
		"nobody watches, whatever is set":        {func(s *situation) { s.fps, s.setting = 0, PolicyFull }, PolicyIdle, 0, "nobody"},
		"only requests":                          {func(s *situation) { s.fps, s.asking = 0, true }, PolicyKeyframe, 0, ""},
		"nothing is known yet":                   {func(s *situation) { s.arriving, s.keyBits, s.bps = 0, 0, 0 }, PolicyKeyframe, 0, ""},
		"three images a second":                  {func(s *situation) { s.fps = 3 }, PolicyKeyframe, 0, ""},
		"more than three":                        {func(s *situation) { s.fps = 3.5 }, PolicyFull, 0, "more than 3 images"},
		"more than three, with layers":           {func(s *situation) { s.fps, s.base = 5, 7.5 }, PolicyTemporal, 0, "more than 3 images"},
		"more than the base layer has":           {func(s *situation) { s.fps, s.base = 10, 7.5 }, PolicyFull, 0, "more than 3 images"},
		"no PLI agreed":                          {func(s *situation) { s.takesPLI = false }, PolicyFull, 0, "takes no requests"},
		"no PLI agreed, with layers":             {func(s *situation) { s.takesPLI, s.base = false, 15 }, PolicyTemporal, 0, "takes no requests"},
		"a sender that ignores PLI":              {func(s *situation) { s.answers = false }, PolicyFull, 0, "does not answer"},
		"coarse key frames":                      {func(s *situation) { s.settle = 1 }, PolicyKeyframe, 1, ""},
		"key frames that stay coarse":            {func(s *situation) { s.settle = neverSettle }, PolicyFull, 0, "coarse for too long"},
		"a screen that hardly changes":           {func(s *situation) { s.arriving = 1.5 }, PolicyFull, 0, "few frames"},
		"few frames, two for each image":         {func(s *situation) { s.arriving, s.settle = 3.9, 1 }, PolicyFull, 0, "few frames"},
		"few frames, but as it was":              {func(s *situation) { s.arriving, s.in = 1.7, PolicyKeyframe }, PolicyKeyframe, 0, ""},
		"a narrow link":                          {func(s *situation) { s.bps = 700e3 }, PolicyFull, 0, "too much"},
		"a narrow link, but as it was":           {func(s *situation) { s.bps, s.in = 700e3, PolicyKeyframe }, PolicyKeyframe, 0, ""},
		"full is set":                            {func(s *situation) { s.setting = PolicyFull }, PolicyFull, 0, "set"},
		"keyframe is set, at 10 images a second": {func(s *situation) { s.setting, s.fps = PolicyKeyframe, 10 }, PolicyKeyframe, 0, "set"},
		"keyframe is set, coarse ones":           {func(s *situation) { s.setting, s.settle = PolicyKeyframe, neverSettle }, PolicyKeyframe, maxAfterKey, "set"},
		"keyframe is set, PLI ignored":           {func(s *situation) { s.setting, s.answers = PolicyKeyframe, false }, PolicyFull, 0, "does not answer"},
		"temporal is set":                        {func(s *situation) { s.setting, s.base = PolicyTemporal, 7.5 }, PolicyTemporal, 0, "set"},
		"temporal is set, no layers":             {func(s *situation) { s.setting = PolicyTemporal }, PolicyFull, 0, "no layers"},
	} {
		got := decide(camera(tt.change))
		if got.policy != tt.want || got.after != tt.after || !strings.Contains(got.reason, tt.reason) || got.reason == "" {
			t.Errorf("%s: %+v, want %s +%d, %q", name, got, tt.want, tt.after, tt.reason)
		}
	}
}

// What rests on a measurement changes only when it has lasted; what would fail at once changes at once.
func TestChooserDoesNotWaver(t *testing.T) {
	var c chooser
	at := t0
	step := func(after time.Duration, change func(*situation)) Policy {
		at = at.Add(after)
		return c.step(camera(change), at).policy
	}
	few := func(s *situation) { s.arriving = 1.2 }
	for i, tt := range []struct {
		after  time.Duration
		change func(*situation)
		want   Policy
	}{
		{0, nil, PolicyKeyframe},       // from nothing at once
		{time.Second, few, PolicyFull}, // at first
		{time.Second, nil, PolicyKeyframe},
		{time.Second, few, PolicyKeyframe},
		{time.Second, nil, PolicyKeyframe}, // it did not last
		{time.Second, few, PolicyKeyframe},
		{2900 * time.Millisecond, few, PolicyKeyframe},
		{100 * time.Millisecond, few, PolicyFull},
		{time.Second, nil, PolicyFull},
		{2 * time.Second, nil, PolicyFull},
		{time.Second, nil, PolicyKeyframe},
		{time.Millisecond, func(s *situation) { s.answers = false }, PolicyFull}, // at once
		{time.Millisecond, nil, PolicyFull},                                      // back, not at once
		{time.Millisecond, func(s *situation) { s.setting = PolicyKeyframe }, PolicyKeyframe},
		{time.Millisecond, func(s *situation) { s.fps = 0 }, PolicyIdle},
		{time.Millisecond, nil, PolicyKeyframe},
		{time.Millisecond, func(s *situation) { s.fps = 10 }, PolicyFull},
	} {
		if got := step(tt.after, tt.change); got != tt.want {
			t.Errorf("step %d: %s, want %s", i, got, tt.want)
		}
	}
}

// run plays a sender: asked every second, it answers after the delay that answer gives (0: never). It returns whether it is trusted at the end.
func TestAnswers(t *testing.T) {
	ms := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }
	run := func(seconds int, answer func(second int) int) (a answers, distrusted int) {
		distrusted = -1
		for s := range seconds {
			a.ask(ms(1000 * s))
			d := answer(s)
			for m := 50; m <= 1000; m += 50 {
				if d > 0 && m >= d {
					a.key(ms(1000*s + d))
					d = 0
				}
				a.tick(ms(1000*s + m))
			}
			if a.distrust && distrusted < 0 {
				distrusted = s
			}
		}
		return a, distrusted
	}
	if a, n := run(100, func(int) int { return 60 }); n >= 0 || a.took != 60*time.Millisecond || a.count != 100 || a.ignored != 0 {
		t.Errorf("one that answers: distrusted after %d s, %+v", n, a)
	}
	if a, n := run(5, func(int) int { return 0 }); n != 1 || a.ignored != 2 {
		t.Errorf("one that never does: distrusted after %d s, %+v", n, a)
	}
	if a, n := run(200, func(s int) int { return 80 * min((s+1)%8, 1) }); n >= 0 || a.ignored != 24 {
		t.Errorf("one whose answer is lost every 8th time: distrusted after %d s, %+v", n, a)
	}
	if _, n := run(30, func(s int) int { return []int{300, 0, 0}[s%3] }); n < 0 || n > 10 {
		t.Errorf("key frames every 3 s whatever is asked: distrusted after %d s", n)
	}
}

func TestADistrustedSenderIsAskedNowAndThen(t *testing.T) {
	var a answers
	a.distrust, a.probeEvery = true, probeFirst
	a.probeAt = t0.Add(probeFirst)
	var asked []int
	var at time.Time
	for s := range 2000 {
		at = t0.Add(time.Duration(s) * time.Second)
		if a.probe(at) {
			asked = append(asked, s)
			a.ask(at)
		}
		if s%300 == 17 { // its own, now and then
			a.key(at)
		}
		a.tick(at)
	}
	if want := []int{30, 92, 214, 456, 938, 1420, 1902}; !slices.Equal(asked, want) {
		t.Errorf("asked after %v s, want %v", asked, want)
	}
	good := 0
	for s := 2000; a.distrust && s < 4000; s++ { // now it answers
		at = t0.Add(time.Duration(s) * time.Second)
		if a.probe(at) {
			a.ask(at)
			a.key(at.Add(50 * time.Millisecond))
			good++
		}
	}
	if a.distrust || good != probesToTrust {
		t.Errorf("after %d answers: %+v", good, a)
	}
}

// TestG10AdmissionKeepsReferences: whatever the policy does, a frame is decoded only with everything it refers to.
func TestG10AdmissionKeepsReferences(t *testing.T) {
	// L1T3: 0 2 1 2, sync where a layer refers to the base alone.
	layered := func(n int) temporal {
		return []temporal{{known: true}, {known: true, id: 2}, {known: true, id: 1, sync: true}, {known: true, id: 2}}[n%4]
	}
	for _, tt := range []struct {
		name  string
		at    func(n int) choice // from frame n on
		layer func(n int) temporal
		key   func(n int) bool
		want  string // K decoded key, D decoded, . skipped
	}{
		{"full", func(int) choice { return choice{policy: PolicyFull} }, nil, func(n int) bool { return n == 0 }, "KDDDDDDDDDDD"},
		{"keyframe", func(int) choice { return choice{policy: PolicyKeyframe} }, nil, func(n int) bool { return n%4 == 0 }, "K...K...K..."},
		{"keyframe and one", func(int) choice { return choice{policy: PolicyKeyframe, after: 1} }, nil, func(n int) bool { return n%4 == 0 }, "KD..KD..KD.."},
		{"keyframe, then full", func(n int) choice {
			if n < 6 {
				return choice{policy: PolicyKeyframe}
			}
			return choice{policy: PolicyFull}
		}, nil, func(n int) bool { return n == 0 || n == 8 }, "K.......KDDD"},
		{"full, then keyframe", func(n int) choice {
			if n < 6 {
				return choice{policy: PolicyFull}
			}
			return choice{policy: PolicyKeyframe}
		}, nil, func(n int) bool { return n == 0 || n == 8 }, "KDDDDD..K..."},
		{"temporal", func(int) choice { return choice{policy: PolicyTemporal} }, layered, func(n int) bool { return n == 0 }, "K...D...D..."},
		{"temporal, then full", func(n int) choice {
			if n < 5 {
				return choice{policy: PolicyTemporal}
			}
			return choice{policy: PolicyFull}
		}, layered, func(n int) bool { return n == 0 }, "K...D.D.D.D."}, // layer 1 is joined at its sync; layer 2 has none
		{"temporal, unreferenced", func(int) choice { return choice{policy: PolicyTemporal} },
			func(n int) temporal { return temporal{unreferenced: n%2 == 1} }, func(n int) bool { return n == 0 }, "K.D.D.D.D.D."},
		{"unreferenced, then full", func(n int) choice {
			if n < 4 {
				return choice{policy: PolicyTemporal}
			}
			return choice{policy: PolicyFull}
		}, func(n int) temporal { return temporal{unreferenced: n%2 == 1} }, func(n int) bool { return n == 0 }, "K.D.DDDDDDDD"},
	} {
		var g admission
		var got strings.Builder
		for n := range 12 {
			f := &frame{key: tt.key(n), receivedAt: t0.Add(time.Duration(n) * time.Second / 30)}
			if tt.layer != nil {
				f.temporal = tt.layer(n)
			}
			switch ok := g.admit(f, tt.at(n), true, 0); {
			case ok && f.key:
				got.WriteByte('K')
			case ok:
				got.WriteByte('D')
			default:
				got.WriteByte('.')
			}
		}
		if got.String() != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got.String(), tt.want)
		}
	}
	var g admission
	late := &frame{receivedAt: t0.Add(burstWait + 1)}
	if !g.admit(&frame{key: true, receivedAt: t0}, choice{policy: PolicyKeyframe, after: 2}, true, 0) || g.admit(late, choice{policy: PolicyKeyframe, after: 2}, true, 0) {
		t.Error("a frame that comes long after its key frame is still waited for")
	}
	if g.admit(&frame{key: true, receivedAt: t0}, choice{policy: PolicyKeyframe}, false, 0) || g.open {
		t.Error("a key frame that nobody wants is decoded")
	}
}

func TestSettling(t *testing.T) {
	// shots gives pictures of a still scene whose coding error falls as errors say (in levels), with a moving stripe of the given share.
	shots := func(moving float64, errors ...int) (after int, ok bool) {
		var s settling
		for i := range watchFrames + 1 {
			e := errors[min(i, len(errors)-1)]
			p := NewPicture(320, 240)
			for y := range p.Height {
				for x := range p.Width {
					v := 60 + (x*7+y*3)%100
					if (x+y)%2 == 0 {
						v += e
					} else {
						v -= e
					}
					if float64(x) < moving*float64(p.Width) {
						v = 40 + (x*5+i*37)%150
					}
					p.Y[y*p.YStride+x] = byte(v)
				}
			}
			if i == 0 {
				s.begin(p)
			} else if done := s.add(p); done != (i == watchFrames) {
				t.Fatalf("picture %d: done %v", i, done)
			}
		}
		return s.result()
	}
	for _, tt := range []struct {
		name   string
		moving float64
		errors []int
		after  int
		ok     bool
	}{
		{"fine from the start", 0, []int{1}, 0, true},
		{"coarse key frame", 0, []int{4, 1}, 1, true},
		{"two coarse ones", 0, []int{5, 3, 1}, 2, true},
		{"coarse for too long", 0, []int{12, 9, 3, 3, 3}, neverSettle, true},
		{"coarse, with a moving inset", 0.5, []int{4, 1}, 1, true},
		{"everything moves", 1, []int{1}, 0, false},
	} {
		if after, ok := shots(tt.moving, tt.errors...); after != tt.after || ok != tt.ok {
			t.Errorf("%s: %d, %v; want %d, %v", tt.name, after, ok, tt.after, tt.ok)
		}
	}
}
