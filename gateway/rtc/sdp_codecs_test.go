package rtc

import (
	"strings"
	"testing"

	"github.com/pion/sdp/v3"
)

// videoOf gives the formats of an answer's video section: "PT name fmtp", in order.
func videoOf(t *testing.T, answer string) (out []string) {
	t.Helper()
	var d sdp.SessionDescription
	if err := d.UnmarshalString(answer); err != nil {
		t.Fatal(err)
	}
	for _, m := range d.MediaDescriptions {
		if m.MediaName.Media != "video" || m.MediaName.Port.Value == 0 {
			continue
		}
		formats := formatsOf(m)
		for _, pt := range m.MediaName.Formats {
			out = append(out, strings.TrimSpace(pt+" "+formats[pt].name+" "+formats[pt].fmtp))
		}
	}
	return out
}

func TestGoldenOffersGetTheirCodec(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.TCPPort = 0 })
	for name, want := range map[string]string{
		"chromium-av":    "96 VP8, 97 rtx apt=96",
		"firefox-av":     "120 VP8 max-fs=12288;max-fr=60, 124 rtx apt=120",
		"gstreamer-av":   "96 VP8, 97 rtx apt=96",
		"aiortc-av":      "97 VP8, 98 rtx apt=97",
		"obs-av-h264":    "96 H264 profile-level-id=42e01f;packetization-mode=1;level-asymmetry-allowed=1",
		"ffmpeg-av-h264": "106 H264 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f",
		"ffmpeg-av-vp8":  "96 VP8",
	} {
		t.Run(name, func(t *testing.T) {
			p, answer, err := e.Accept(t.Context(), readOffer(t, name), Handlers{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if got := strings.Join(videoOf(t, answer), ", "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Chromium's and Firefox's offers without the codecs that come first: whoever has but one of the four connects.
func TestNobodyIsStranded(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.TCPPort = 0 })
	chromium, firefox := readOffer(t, "chromium-av"), readOffer(t, "firefox-av")
	without := func(offer string, names ...string) string {
		for _, n := range names {
			offer = strings.ReplaceAll(offer, " "+n+"/90000", " H265/90000")
		}
		return offer
	}
	minimalH264 := func(fmtp string) string {
		return strings.Replace(minimal, "a=rtpmap:96 VP8/90000\r\n", "a=rtpmap:96 H264/90000\r\n"+fmtp, 1)
	}
	for name, c := range map[string]struct{ offer, want string }{
		"Chromium without VP8":        {without(chromium, "VP8"), "102 H264 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f, 103 rtx apt=102"},
		"Chromium, VP9 and AV1":       {without(chromium, "VP8", "H264"), "98 VP9 profile-id=0, 99 rtx apt=98"},
		"Chromium, AV1 only":          {without(chromium, "VP8", "H264", "VP9"), "45 AV1 level-idx=5;profile=0;tier=0, 46 rtx apt=45"},
		"Firefox without VP8":         {without(firefox, "VP8"), "121 VP9 max-fs=12288;max-fr=60, 125 rtx apt=121"},
		"Firefox, AV1 only":           {without(firefox, "VP8", "VP9"), "99 AV1, 100 rtx apt=99"},
		"H264 without parameters":     {minimalH264(""), "96 H264"},
		"H264 mode 0":                 {minimalH264("a=fmtp:96 profile-level-id=42e01f\r\n"), "96 H264 profile-level-id=42e01f"},
		"H264 high":                   {minimalH264("a=fmtp:96 profile-level-id=640C1F;packetization-mode=1\r\n"), "96 H264 profile-level-id=640C1F;packetization-mode=1"},
		"H264 main":                   {minimalH264("a=fmtp:96 packetization-mode=1;profile-level-id=4d0032;sprop-parameter-sets=Z00,aO4\r\n"), "96 H264 packetization-mode=1;profile-level-id=4d0032;sprop-parameter-sets=Z00,aO4"},
		"lower-case name":             {strings.Replace(minimal, "VP8", "vp9", 1), "96 VP9"},
		"H264 mode 0 first, then 1":   {strings.Replace(minimalH264("a=fmtp:96 packetization-mode=0;profile-level-id=42e01f\r\na=rtpmap:97 H264/90000\r\na=fmtp:97 packetization-mode=1;profile-level-id=42e01f\r\n"), "SAVPF 96", "SAVPF 96 97", 1), "97 H264 packetization-mode=1;profile-level-id=42e01f"},
		"H264 4:4:4 first, then main": {strings.Replace(minimalH264("a=fmtp:96 packetization-mode=1;profile-level-id=f4001f\r\na=rtpmap:97 H264/90000\r\na=fmtp:97 packetization-mode=1;profile-level-id=4d001f\r\n"), "SAVPF 96", "SAVPF 96 97", 1), "97 H264 packetization-mode=1;profile-level-id=4d001f"},
		"H265 first, then VP8":        {strings.Replace(strings.Replace(minimal, "SAVPF 96", "SAVPF 95 96", 1), "a=rtpmap:96", "a=rtpmap:95 H265/90000\r\na=rtpmap:96", 1), "96 VP8"},
		"rtx of a codec that is gone": {strings.Replace(minimal, "SAVPF 96", "SAVPF 96 98 99", 1) + "a=rtpmap:98 H265/90000\r\na=rtpmap:99 rtx/90000\r\na=fmtp:99 apt=98\r\n", "96 VP8"},
	} {
		t.Run(name, func(t *testing.T) {
			p, answer, err := e.Accept(t.Context(), c.offer, Handlers{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if got := strings.Join(videoOf(t, answer), ", "); got != c.want {
				t.Errorf("got %q, want %q\n%s", got, c.want, answer)
			}
			if strings.Contains(answer, "H265") {
				t.Error("H265 in the answer")
			}
		})
	}
}
