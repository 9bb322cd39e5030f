package whipclient

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestReadOggOpus(t *testing.T) {
	file, err := os.ReadFile("../load/speech.opus")
	if err != nil {
		t.Fatal(err)
	}
	sound, err := ReadOggOpus("speech.opus", bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	bytesIn := 0
	for _, p := range sound {
		bytesIn += len(p)
	}
	// 11 s of packets of 20 ms, and nearly all of the file is in them.
	if len(sound) < 549 || len(sound) > 552 || bytesIn < len(file)*9/10 {
		t.Errorf("%d packets of %d bytes, of a file of %d", len(sound), bytesIn, len(file))
	}
	body := file[bytes.Index(file, []byte("OpusTags")):]
	toc := body[bytes.Index(body, []byte("OggS"))+27:]
	toc = toc[int(body[bytes.Index(body, []byte("OggS"))+26]):]
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"empty":         {nil, "no Ogg Opus file"},
		"something":     {[]byte(strings.Repeat("nonsense ", 20)), "no page of Ogg"},
		"cut":           {file[:len(file)-10], "unexpected EOF"},
		"other packets": {bytes.Replace(file, toc[:8], append([]byte{toc[0] | 3}, toc[1:8]...), 1), "does not hold 20 ms"},
	} {
		if _, err := ReadOggOpus("x", bytes.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestOpusFrame(t *testing.T) {
	// RFC 6716 §3.1, table 2: configurations 1, 5, 9, 13, 15, 19, … hold 20 ms; code 0 is one frame.
	var twenty []int
	for config := range 32 {
		if opusFrame([]byte{byte(config << 3)}) == soundFrame {
			twenty = append(twenty, config)
		}
		if opusFrame([]byte{byte(config<<3 | 1)}) != 0 {
			t.Errorf("configuration %d with two frames is taken for one", config)
		}
	}
	if !slices.Equal(twenty, []int{1, 5, 9, 13, 15, 19, 23, 27, 31}) {
		t.Errorf("20 ms: %v", twenty)
	}
}
