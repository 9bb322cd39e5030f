package rtc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pion/sdp/v3"

	"sightline/gateway/problem"
)

func readOffer(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "offers", name+".sdp"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// goldenOffers says of every captured offer what must come of it.
var goldenOffers = map[string]struct {
	sources string // of the live sections, in order
	answer  string // media and port class of the answer's sections
	refused string // words of the error instead
	bundle  string
	setup   string // of the answer
	voice   string // direction of the answer's section in which the offerer hears us, if there is one
}{
	"chromium-av":                 {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"chromium-simulcast":          {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"chromium-camera-screen":      {sources: "microphone camera screen data", answer: "audio video video application", bundle: "0 1 2 3", setup: "active"},
	"chromium-video-nocandidates": {sources: "camera", answer: "video", bundle: "0", setup: "active"},
	"firefox-av":                  {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"firefox-simulcast":           {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"aiortc-av":                   {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active", voice: "sendrecv"},
	"chromium-talk":               {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active", voice: "sendrecv"},
	"chromium-listen":             {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active", voice: "sendonly"},
	"firefox-talk":                {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active", voice: "sendrecv"},
	"firefox-listen":              {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active", voice: "sendonly"},
	"aiortc-video-data":           {sources: "camera data", answer: "video application", bundle: "0 1", setup: "active"},
	"gstreamer-av":                {sources: "camera microphone", answer: "video audio", bundle: "video0 audio1", setup: "active"},
	"obs-av-vp8":                  {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"obs-av-h264":                 {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"ffmpeg-av-vp8":               {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"ffmpeg-av-h264":              {sources: "microphone camera", answer: "audio video", bundle: "0 1", setup: "active"},
	"ffmpeg-video-vp8":            {sources: "camera", answer: "video", bundle: "1", setup: "active"},
	"ffmpeg-audio":                {sources: "microphone", answer: "audio", bundle: "0", setup: "active"},
	"ffmpeg-port0-video":          {sources: "microphone", answer: "audio -video", bundle: "0", setup: "active"},
}

func TestGoldenOffersAreAllListed(t *testing.T) {
	files, err := filepath.Glob("testdata/offers/*.sdp")
	if err != nil || len(files) != len(goldenOffers) {
		t.Fatalf("%d files, %d expectations, %v", len(files), len(goldenOffers), err)
	}
}

func TestGoldenOffersAreAnswered(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.TCPPort = 0 })
	for name, want := range goldenOffers {
		t.Run(name, func(t *testing.T) {
			offer := readOffer(t, name)
			plan, err := normaliseOffer(offer, policy{loopback: true, private: true})
			if want.refused != "" {
				wantProblem(t, err, problem.NotNegotiable, want.refused)
				if _, _, err := e.Accept(t.Context(), offer, Handlers{}); err == nil {
					t.Fatal("the engine took what the normaliser refused")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var sources []string
			for _, s := range plan.sections {
				if s.live && s.media == "application" {
					sources = append(sources, "data")
				} else if s.live {
					sources = append(sources, s.source)
				}
			}
			if got := strings.Join(sources, " "); got != want.sources {
				t.Errorf("sources %q, want %q", got, want.sources)
			}
			p, answer, err := e.Accept(t.Context(), offer, Handlers{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			checkAnswer(t, offer, answer, want.answer, want.bundle, want.setup)
			if _, ok := p.Speaker(); ok != (want.voice != "") || voiceOf(t, answer) != want.voice {
				t.Errorf("speaker %v, direction of the answer %q, want %q", ok, voiceOf(t, answer), want.voice)
			}
		})
	}
	if s := e.Stats(); s.Peers != 0 || s.Unconnected != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// checkAnswer is the model of a picky client: it holds for every answer that we give.
func checkAnswer(t *testing.T, offer, answer, sections, bundle, setup string) {
	t.Helper()
	if len(answer) >= maxAnswerBytes || !strings.HasPrefix(answer, "v=") {
		t.Errorf("answer of %d bytes begins %.4q", len(answer), answer)
	}
	var o, d sdp.SessionDescription
	if err := o.UnmarshalString(offer); err != nil {
		t.Fatal(err)
	}
	if err := d.UnmarshalString(answer); err != nil {
		t.Fatalf("answer does not parse: %v\n%s", err, answer)
	}
	if len(o.MediaDescriptions) != len(d.MediaDescriptions) {
		t.Fatalf("%d sections answered with %d", len(o.MediaDescriptions), len(d.MediaDescriptions))
	}
	var kinds []string
	for i, m := range d.MediaDescriptions {
		offered := o.MediaDescriptions[i]
		mid, _ := m.Attribute("mid")
		if want, _ := offered.Attribute("mid"); mid != want || m.MediaName.Media != offered.MediaName.Media {
			t.Errorf("section %d is %s %q, the offer has %s %q", i, m.MediaName.Media, mid, offered.MediaName.Media, want)
		}
		if m.MediaName.Port.Value == 0 {
			kinds = append(kinds, "-"+m.MediaName.Media)
			continue
		}
		kinds = append(kinds, m.MediaName.Media)
		if got, _ := m.Attribute("setup"); got != setup {
			t.Errorf("section %d: setup %q, want %q", i, got, setup)
		}
		if m.MediaName.Media != "application" {
			checkRTPSection(t, i, m, offered)
		}
	}
	if got := strings.Join(kinds, " "); got != sections {
		t.Errorf("sections %q, want %q", got, sections)
	}
	if got, _ := d.Attribute("group"); got != "BUNDLE "+bundle {
		t.Errorf("group %q, want BUNDLE %s", got, bundle)
	}
	first, _, found := strings.Cut(answer, "a=candidate:")
	if !found || strings.Contains(first, "m=audio 0") && strings.Contains(first, "m=video 0") {
		t.Error("no candidate in the answer")
	}
	if strings.Contains(answer, " 2 udp ") || strings.Contains(answer, ".local") {
		t.Errorf("answer with component 2 or a name:\n%s", answer)
	}
}

func checkRTPSection(t *testing.T, i int, m, offered *sdp.MediaDescription) {
	t.Helper()
	for _, key := range []string{"rtcp-mux", "rtcp-mux-only", "ice-ufrag", "ice-pwd"} {
		if _, ok := m.Attribute(key); !ok {
			t.Errorf("section %d lacks a=%s", i, key)
		}
	}
	allowed := map[string][]string{
		"sendonly": {"recvonly"}, "sendrecv": {"recvonly", "sendrecv"}, "recvonly": {"sendonly", "inactive"}, "inactive": {"inactive"}, "": {"recvonly", "sendrecv"},
	}
	if got, was := directionOf(m), directionOf(offered); !slices.Contains(allowed[was], got) {
		t.Errorf("section %d: %q is answered with %q (RFC 3264 §6.1)", i, was, got)
	}
	formats := formatsOf(m)
	for _, pt := range m.MediaName.Formats {
		f := formats[pt]
		if !slices.Contains(offered.MediaName.Formats, pt) {
			t.Errorf("section %d answers payload type %s that was not offered", i, pt)
		}
		if f.apt != "" && !slices.Contains(m.MediaName.Formats, f.apt) {
			t.Errorf("section %d: %s %s has apt=%s, which is not listed", i, pt, f.name, f.apt)
		}
		if !slices.ContainsFunc([]string{codecVP8, codecH264, codecVP9, codecAV1, codecOpus, codecRTX}, func(s string) bool { return strings.EqualFold(s, f.name) }) {
			t.Errorf("section %d answers %s", i, f.name)
		}
	}
	for _, a := range m.Attributes {
		if id, uri, ok := strings.Cut(a.Value, " "); a.Key == "extmap" && ok {
			found := false
			for _, b := range offered.Attributes {
				oid, ouri, _ := strings.Cut(b.Value, " ")
				oid, _, _ = strings.Cut(oid, "/")
				found = found || b.Key == "extmap" && oid == id && ouri == uri
			}
			if !found {
				t.Errorf("section %d answers extension %s %s that was not offered so", i, id, uri)
			}
		}
	}
}

func wantProblem(t *testing.T, err error, code problem.Code, words string) {
	t.Helper()
	var p *problem.Error
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(p.Detail, words) {
		t.Fatalf("error %v, want %s with %q", err, code, words)
	}
}

// minimal is the least offer that is taken; edits make it wrong in one point.
const minimal = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n" +
	"m=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=sendonly\r\na=rtcp-mux\r\na=setup:actpass\r\n" +
	"a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\n" +
	"a=fingerprint:sha-256 5C:CA:C3:A1:06:35:77:B6:29:F4:04:B5:FF:BB:16:10:12:D9:58:62:E0:7A:DA:2A:B6:D6:C7:A7:44:00:D7:4F\r\n" +
	"a=rtpmap:96 VP8/90000\r\n"

func TestG12BadOffersGetTheirPreciseError(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(minimal) }
	sections := func(n int) string {
		_, section, _ := strings.Cut(minimal, "m=video")
		s := edit("BUNDLE 0", "BUNDLE 0")
		for i := 1; i < n; i++ {
			s += "m=video" + strings.Replace(section, "a=mid:0", fmt.Sprintf("a=mid:%d", i), 1)
		}
		return s
	}
	var ssrcs, rids strings.Builder
	for i := range 65 {
		fmt.Fprintf(&ssrcs, "a=ssrc:%d cname:x\r\n", i+1)
	}
	for i := range 9 {
		fmt.Fprintf(&rids, "a=rid:r%d send\r\n", i)
	}
	cases := []struct {
		name, offer string
		code        problem.Code
		words       string
	}{
		{"empty", "", problem.InvalidArgument, "first line"},
		{"garbage", "hello, world\n", problem.InvalidArgument, "line 1 of the offer is not SDP"},
		{"binary", "v=0\r\n\x00\x01\x02\r\n", problem.InvalidArgument, "line 2"},
		{"json", `{"type":"offer","sdp":"v=0"}`, problem.InvalidArgument, "line 1"},
		{"broken", "v=0\r\nm=video\r\n", problem.InvalidArgument, "cannot be parsed"},
		{"no m-line", "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n", problem.InvalidArgument, "no m-line"},
		{"1 MB", minimal + strings.Repeat("a=x:"+strings.Repeat("y", 1000)+"\r\n", 1000), problem.TooLarge, "at most 65536"},
		{"300 m-lines", minimal + strings.Repeat("m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", 299), problem.TooLarge, "300 m-lines; at most 8"},
		{"9 sections", sections(9), problem.TooLarge, "9 m-lines"},
		{"long line", minimal + "a=x:" + strings.Repeat("y", 3000) + "\r\n", problem.TooLarge, "line 16 of the offer has 3004 bytes"},
		{"65 SSRCs", minimal + ssrcs.String(), problem.TooLarge, "65 SSRCs"},
		{"9 layers", minimal + rids.String(), problem.TooLarge, "9 simulcast layers"},
		{"no mid", edit("a=mid:0\r\n", ""), problem.InvalidArgument, "a=mid of its own"},
		{"same mid twice", strings.Replace(sections(2), "a=mid:1", "a=mid:0", 1), problem.InvalidArgument, `it has "0"`},
		{"no group, two sections", strings.Replace(sections(2), "a=group:BUNDLE 0\r\n", "", 1), problem.NotNegotiable, "2 sections but no a=group:BUNDLE"},
		{"group of nobody", edit("BUNDLE 0", "BUNDLE x"), problem.NotNegotiable, "names no section"},
		{"only refused sections", edit("m=video 9", "m=video 0"), problem.NotNegotiable, "no section in use"},
		{"H265 only", edit("VP8", "H265"), problem.NotNegotiable, "does not offer VP8, H264 (4:2:0 with 8 bits), VP9 (profile 0) or AV1 (profile 0), one of which is needed; it offers H265"},
		{"H264 4:4:4 only", edit("VP8/90000", "H264/90000\r\na=fmtp:96 packetization-mode=1;profile-level-id=f4001f"), problem.NotNegotiable, "it offers H264"},
		{"H264 interleaved only", edit("VP8/90000", "H264/90000\r\na=fmtp:96 packetization-mode=2;profile-level-id=42e01f"), problem.NotNegotiable, "it offers H264"},
		{"VP9 with 10 bits only", edit("VP8/90000", "VP9/90000\r\na=fmtp:96 profile-id=2"), problem.NotNegotiable, "it offers VP9"},
		{"VP8 with another clock", edit("VP8/90000", "VP8/8000"), problem.NotNegotiable, "it offers VP8"},
		{"no rtpmap", edit("a=rtpmap:96 VP8/90000\r\n", ""), problem.NotNegotiable, "it offers nothing known"},
		{"receives only", edit("sendonly", "recvonly"), problem.NotNegotiable, "publishes nothing"},
		{"three cameras", edit("BUNDLE 0", "BUNDLE 0 1 2") + strings.TrimPrefix(sections(3), minimal), problem.NotNegotiable, "3 video sections"},
		{"no ufrag", edit("a=ice-ufrag:abcd\r\n", ""), problem.InvalidArgument, "a=ice-ufrag of the offer has 0"},
		{"short pwd", edit("0123456789012345678901", "0123"), problem.InvalidArgument, "a=ice-pwd of the offer has 4"},
		{"no fingerprint", edit("a=fingerprint:sha-256", "a=x:y"), problem.InvalidArgument, "no usable a=fingerprint"},
		{"md5 fingerprint", edit("sha-256", "md5"), problem.InvalidArgument, "no usable a=fingerprint"},
	}
	e := newEngine(t, nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := normaliseOffer(c.offer, policy{})
			wantProblem(t, err, c.code, c.words)
			_, _, err = e.Accept(t.Context(), c.offer, Handlers{})
			wantProblem(t, err, c.code, c.words)
		})
	}
	if s := e.Stats(); s.Peers != 0 || s.Unconnected != 0 {
		t.Errorf("refused offers left something: %+v", s)
	}
}

func TestOddButHonestOffersAreTaken(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(minimal) }
	for name, offer := range map[string]string{
		"line feeds only":       strings.ReplaceAll(minimal, "\r\n", "\n"),
		"no end of line":        strings.TrimSuffix(minimal, "\r\n"),
		"empty lines":           strings.ReplaceAll(minimal, "\r\n", "\r\n\r\n"),
		"unknown attributes":    minimal + "a=never-heard-of:1\r\na=\r\n",
		"unknown line type":     strings.Replace(minimal, "t=0 0\r\n", "t=0 0\r\nx=what\r\n", 1),
		"lower-case codec":      edit("VP8", "vp8"),
		"no group, one section": edit("a=group:BUNDLE 0\r\n", ""),
		"mid out of the group":  edit("BUNDLE 0", "BUNDLE 7 0 0"),
		"sendrecv by default":   edit("a=sendonly\r\n", ""),
		"only a bad candidate":  minimal + "a=candidate:nonsense\r\n",
		"a name as candidate":   minimal + "a=candidate:1 1 udp 2113937151 e1b2c3d4.local 50000 typ host\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, nil)
			p, answer, err := e.Accept(t.Context(), offer, Handlers{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if hasGroup := strings.Contains(answer, "a=group:"); hasGroup != strings.Contains(offer, "a=group:") {
				t.Errorf("group in the answer: %v\n%s", hasGroup, answer)
			}
		})
	}
}

func TestRefusedAndUnknownSectionsKeepTheirPlace(t *testing.T) {
	offer := strings.Replace(minimal, "m=video 9", "m=text 9 RTP/AVP 98\r\nc=IN IP4 0.0.0.0\r\na=mid:t\r\nm=audio 0 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=mid:a\r\nm=video 9", 1)
	offer = strings.Replace(offer, "BUNDLE 0", "BUNDLE t a 0", 1)
	e := newEngine(t, nil)
	p, answer, err := e.Accept(t.Context(), offer, Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	checkAnswer(t, offer, answer, "-text -audio video", "0", "active")
}

func TestScreenIsNamedByContentAttribute(t *testing.T) {
	_, section, _ := strings.Cut(minimal, "m=video")
	two := strings.Replace(minimal, "BUNDLE 0", "BUNDLE 0 1", 1) + "m=video" + strings.Replace(section, "a=mid:0", "a=mid:1", 1)
	for name, c := range map[string]struct{ offer, want string }{
		"two":                  {two, "camera screen"},
		"slides first":         {strings.Replace(two, "a=mid:0", "a=content:slides\r\na=mid:0", 1), "screen camera"},
		"slides second":        {strings.Replace(two, "a=mid:1", "a=content:slides\r\na=mid:1", 1), "camera screen"},
		"by its stream's name": {strings.Replace(two, "a=mid:0", "a=msid:caller-screen_share t1\r\na=mid:0", 1), "screen camera"},
		"one, and it is so":    {strings.Replace(minimal, "a=mid:0", "a=content:slides\r\na=mid:0", 1), "screen"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := normaliseOffer(c.offer, policy{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range plan.sections {
				got = append(got, s.source)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestG12CandidatesAreCappedPerSection(t *testing.T) {
	var b strings.Builder
	b.WriteString(minimal)
	for i := range 200 {
		fmt.Fprintf(&b, "a=candidate:%d 1 udp 2113937151 203.0.113.%d 50000 typ host\r\n", i, i+1)
	}
	plan, err := normaliseOffer(b.String(), policy{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range plan.desc.MediaDescriptions[0].Attributes {
		if a.Key == "candidate" {
			n++
		}
	}
	if n != maxCandidates {
		t.Errorf("%d candidates kept, want %d", n, maxCandidates)
	}
}

func FuzzOffer(f *testing.F) {
	for name := range goldenOffers {
		f.Add(readOffer(f, name))
	}
	f.Add(minimal)
	f.Fuzz(func(t *testing.T, offer string) {
		plan, err := normaliseOffer(offer, policy{})
		if err != nil {
			var p *problem.Error
			if !errors.As(err, &p) || p.Detail == "" {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		text, err := plan.sdp()
		if err != nil {
			t.Fatal(err)
		}
		again, err := normaliseOffer(text, policy{})
		if err != nil {
			t.Fatalf("normalised offer is refused: %v\n%s", err, text)
		}
		if twice, _ := again.sdp(); twice != text {
			t.Fatalf("not idempotent:\n%s\n---\n%s", text, twice)
		}
		if again.ufrag != plan.ufrag || again.tag() != plan.tag() || len(again.sections) != len(plan.desc.MediaDescriptions) {
			t.Fatal("another transport or section count after the second pass")
		}
		next, err := plan.restarted(fragment{ufrag: "wxyz", pwd: "0123456789012345678901"}, policy{})
		if err != nil || next.ufrag != "wxyz" {
			t.Fatalf("cannot restart: %v", err)
		}
	})
}
