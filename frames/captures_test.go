package frames

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/pion/rtp"
)

// recorded is a file of testdata/rtp with what a receiver that misses nothing makes of it.
type recorded struct {
	Codec         Codec
	Width, Height int
	Dependency    uint8

	packets []received
	padding int // of them, without payload
	frames  []recordedFrame
	index   map[uint32]int  // of frames, by timestamp
	decoded map[string]bool // lists of frames whose pictures were looked at
}

type recordedFrame struct {
	ts   uint32
	key  bool
	data []byte
	sum  string // of its picture
}

var recordedFiles = []struct {
	name string
	keys int // among the 30 frames: the first, one asked for or due in the middle, and one of Chromium's own
}{
	{"chromium_vp8", 2}, {"chromium_vp8_l1t3", 2}, {"chromium_vp9", 2}, {"chromium_h264", 3}, {"chromium_av1", 2},
	{"firefox_vp8", 2}, {"firefox_vp9", 2}, {"firefox_av1", 2},
	{"gstreamer_vp8", 2}, {"gstreamer_vp9", 2}, {"gstreamer_h264", 2},
	{"ffmpeg_vp8", 2}, {"ffmpeg_vp9", 2}, {"ffmpeg_h264", 2},
}

func readRecorded(t testing.TB, name string) *recorded {
	t.Helper()
	file, err := os.Open("testdata/rtp/" + name + ".rtp.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	in, c := bufio.NewReader(z), &recorded{index: map[uint32]int{}, decoded: map[string]bool{}}
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, c)
	}
	for err == nil {
		var head [6]byte
		if _, err = io.ReadFull(in, head[:]); err != nil {
			break
		}
		raw, p := make([]byte, binary.BigEndian.Uint16(head[:])), &rtp.Packet{}
		if _, err = io.ReadFull(in, raw); err == nil {
			err = p.Unmarshal(raw)
		}
		if len(p.Payload) == 0 {
			c.padding++
		}
		c.packets = append(c.packets, received{p, t0.Add(time.Duration(binary.BigEndian.Uint32(head[2:])) * time.Millisecond)})
	}
	if err != io.EOF {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// loadRecorded reads a file and makes frames and pictures of it. Nothing may be missing or refused.
func loadRecorded(t testing.TB, name string) *recorded {
	t.Helper()
	c := readRecorded(t, name)
	fs, a, err := c.assemble(c.packets)
	if err != nil || a.fdrops != (FrameDrops{}) || a.pdrops != (PacketDrops{}) || a.seq.lost != 0 || a.resets != 0 || a.needKey {
		t.Fatalf("%s: %v; %+v, %+v, %d lost, %d restarts, need key %v", name, err, a.fdrops, a.pdrops, a.seq.lost, a.resets, a.needKey)
	}
	c.frames = fs
	for i, f := range fs {
		c.index[f.ts] = i
	}
	if err := c.decode(fs, func(i int, p *Picture) error {
		if p.Width != c.Width || p.Height != c.Height {
			return fmt.Errorf("picture %d is of %d×%d, want %d×%d", i, p.Width, p.Height, c.Width, c.Height)
		}
		c.frames[i].sum = sumOf(p)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// assemble gives the frames of packets, in a buffer each.
func (c *recorded) assemble(ps []received) (fs []recordedFrame, a *assembler, err error) {
	a = asleep(c.Codec)
	a.said.ids.Dependency = c.Dependency
	a.wake()
	take := func(out []*frame) {
		for _, f := range out {
			fs = append(fs, recordedFrame{ts: f.ts, key: f.key, data: bytes.Clone(f.data)})
			if f.key && (f.width != c.Width || f.height != c.Height) {
				err = fmt.Errorf("a key frame is said to be of %d×%d", f.width, f.height)
			}
			a.recycle(f)
		}
		if e := a.check(); e != nil {
			err = e
		}
	}
	for _, p := range ps {
		q := *p.Packet
		take(a.push(&q, p.at))
	}
	if len(ps) > 0 {
		take(a.tick(ps[len(ps)-1].at.Add(holeWait)))
	}
	return fs, a, err
}

// decode gives what a decoder of its own makes of frames; each must give a picture.
func (c *recorded) decode(fs []recordedFrame, took func(i int, p *Picture) error) error {
	dec, err := newDecoder(c.Codec)
	if err != nil {
		return err
	}
	defer dec.Close()
	for i, f := range fs {
		pic, err := dec.Decode(f.data)
		if err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		if err := took(i, &pic); err != nil {
			return err
		}
	}
	return nil
}

// judge holds G10 of packets that are not all there or not in order: only frames that were sent, in order, each with the picture that a
// receiver has who misses nothing. It gives their numbers.
func (c *recorded) judge(ps []received) (numbers []int, a *assembler, err error) {
	fs, a, err := c.assemble(ps)
	if err != nil {
		return nil, a, err
	}
	for _, f := range fs {
		i, sent := c.index[f.ts]
		switch {
		case !sent || !bytes.Equal(f.data, c.frames[i].data) || f.key != c.frames[i].key:
			return numbers, a, fmt.Errorf("frame %d of timestamp %d, %d bytes, is none that was sent", i, f.ts, len(f.data))
		case len(numbers) > 0 && i <= numbers[len(numbers)-1]:
			return numbers, a, fmt.Errorf("frame %d comes after %d", i, numbers[len(numbers)-1])
		}
		numbers = append(numbers, i)
	}
	if list := fmt.Sprint(numbers); !c.decoded[list] { // the bytes are the same: what is decoded of them is, too
		c.decoded[list] = true
		err = c.decode(fs, func(i int, p *Picture) error {
			if sumOf(p) != c.frames[numbers[i]].sum {
				return fmt.Errorf("frame %d of %s has another picture than without loss", numbers[i], list)
			}
			return nil
		})
	}
	return numbers, a, err
}

// least is which frames must come out when packets of frame n alone are missing: those before, and those from the next key frame on.
func (c *recorded) least(n int) (want []int) {
	key := false
	for i, f := range c.frames {
		key = key || i > n && f.key
		if i < n || key {
			want = append(want, i)
		}
	}
	return want
}

// TestG10RecordedSenders: what real programs send. Of every stream the exact number of frames comes out and decodes. With each packet left
// out in turn, and with many lost, twice, out of order, no picture is another than without, and none is missing that need not be.
func TestG10RecordedSenders(t *testing.T) {
	for _, f := range recordedFiles {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			c := loadRecorded(t, f.name)
			stamps, keys := map[uint32]bool{}, 0
			for _, p := range c.packets {
				stamps[p.Timestamp] = stamps[p.Timestamp] || len(p.Payload) > 0
			}
			for _, fr := range c.frames {
				if fr.key {
					keys++
				}
			}
			if len(c.frames) != 30 || len(stamps) != 30 || keys != f.keys || !c.frames[0].key {
				t.Errorf("%d frames of %d timestamps, %d key frames; want 30, 30, %d", len(c.frames), len(stamps), keys, f.keys)
			}
			losesEach(t, c)
			for seed := range uint64(6) {
				disordered(t, c, seed)
				mistreated10(t, c, seed)
			}
		})
	}
}

// losesEach leaves out one packet after the other. Where pictures are numbered (VP8, VP9), padding that a sender probes with is not missed;
// elsewhere nobody can tell that it was none, and what follows is in doubt.
func losesEach(t *testing.T, c *recorded) {
	last := -1
	for i, p := range c.packets {
		got, a, err := c.judge(slices.Delete(slices.Clone(c.packets), i, i+1))
		if err != nil {
			t.Fatalf("without packet %d: %v", i, err)
		}
		n, pad := last+1, len(p.Payload) == 0
		if !pad {
			n = c.index[p.Timestamp]
			last = n
		}
		least := c.least(n)
		if pad && (c.Codec == CodecVP8 || c.Codec == CodecVP9) {
			least = upTo(len(c.frames))
		}
		for _, want := range least {
			if !slices.Contains(got, want) {
				t.Fatalf("without packet %d, of frame %d: frames %v, want at least %v", i, n, got, least)
			}
		}
		if !pad && slices.Contains(got, n) || a.seq.lost > 1 || a.pdrops != (PacketDrops{}) {
			t.Fatalf("without packet %d, of frame %d: frames %v, %d lost, %+v", i, n, got, a.seq.lost, a.pdrops)
		}
	}
}

// disordered swaps and doubles packets, but brings each in time: everything comes out; padding that comes late was not waited for. Only the very first keeps its place: what comes before
// the first that is seen is of no interest.
func disordered(t *testing.T, c *recorded, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 20))
	ps, doubled := misplace(c.packets, func(i int) (lost bool, behind []int) {
		if i == 0 {
			return false, []int{0}
		}
		if behind = []int{r.IntN(4)}; r.IntN(5) == 0 {
			behind = append(behind, r.IntN(30))
		}
		return false, behind
	})
	for i := range ps {
		ps[i].at = t0.Add(time.Duration(i) * time.Millisecond)
	}
	got, a, err := c.judge(ps)
	again := int(a.pdrops.Duplicate + a.pdrops.Late)
	if err != nil || len(got) != len(c.frames) || a.fdrops != (FrameDrops{}) || again < doubled || again > doubled+c.padding || a.seq.lost != 0 {
		t.Errorf("seed %d: %v; frames %v, %+v, %+v, %d lost; want all, and %d duplicates", seed, err, got, a.fdrops, a.pdrops, a.seq.lost, doubled)
	}
}

// mistreated10 loses a tenth and less, delays some by more than anybody waits, doubles some.
func mistreated10(t *testing.T, c *recorded, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 30))
	loss := []int{100, 30, 10}[seed%3]
	ps, _ := misplace(c.packets, func(int) (lost bool, behind []int) {
		behind = []int{0}
		if r.IntN(10) == 0 {
			behind[0] = r.IntN(12)
		}
		if r.IntN(10) == 0 {
			behind = append(behind, r.IntN(40))
		}
		return r.IntN(loss) == 0, behind
	})
	if got, a, err := c.judge(ps); err != nil {
		t.Errorf("seed %d: %v; frames %v, %+v, %+v", seed, err, got, a.fdrops, a.pdrops)
	}
}

// misplace sends each packet as often and as many places behind its own as do says; arrivals keep their places.
func misplace(packets []received, do func(i int) (lost bool, behind []int)) (ps []received, doubled int) {
	type placed struct {
		received
		place int
	}
	var all []placed
	for i, p := range packets {
		lost, behind := do(i)
		if lost {
			continue
		}
		for _, n := range behind {
			all = append(all, placed{p, i + n})
		}
		doubled += len(behind) - 1
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].place < all[b].place })
	for _, p := range all {
		p.at = packets[min(p.place, len(packets)-1)].at
		ps = append(ps, p.received)
	}
	return ps, doubled
}

// FuzzRecorded is the same by a fuzzer's choice: the first byte picks the file; of the others, one for each packet, the lower four bits delay
// it, the two above double it, the highest two lose it.
func FuzzRecorded(f *testing.F) {
	var all []*recorded
	for i, file := range recordedFiles {
		all = append(all, loadRecorded(f, file.name))
		f.Add([]byte{byte(i), 0, 0xc0})
		f.Add([]byte{byte(i), 0, 0, 0, 0x10, 3, 0, 0x22, 0, 0, 0, 0, 0xc0, 1, 1, 0, 0xc0})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		c, ops := all[int(b[0])%len(all)], b[1:]
		if len(c.decoded) > 1000 {
			clear(c.decoded)
		}
		ps, _ := misplace(c.packets, func(i int) (lost bool, behind []int) {
			if i >= len(ops) {
				return false, []int{0}
			}
			op := ops[i]
			behind = []int{int(op & 15)}
			if n := int(op >> 4 & 3); n > 0 {
				behind = append(behind, n*n*n)
			}
			return op>>6 == 3, behind
		})
		if got, a, err := c.judge(ps); err != nil {
			t.Fatalf("%v; frames %v, %+v, %+v", err, got, a.fdrops, a.pdrops)
		}
	})
}
