// Package load is sightline-load without its video encoders: it plays publishers and agents against a gateway, checks that every agent of a session saw the same conversation, and reports; it judges by limits that the caller sets.
package load

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
)

// Exit codes.
const (
	exitFine   = 0
	exitBroken = 1 // a limit given by flag is broken, a publisher failed, or agents saw different logs
	exitUsage  = 2 // usage, or nothing could connect
)

//go:embed speech.opus
var builtinSpeech []byte

// Encode makes synthetic video of a codec, vp8 or h264.
type Encode func(ctx context.Context, codec string, cfg testvideo.Config) (*whipclient.Clip, error)

// Run is the command. It returns the exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer, encode Encode) int {
	o, err := parse(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitFine
	case err != nil:
		fmt.Fprintf(stderr, "sightline-load: %v (--help lists the flags)\n", err)
		return exitUsage
	}
	l, err := prepare(ctx, o, stdout, encode)
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(stderr, "sightline-load: called off before anything began")
			return exitBroken
		}
		fmt.Fprintln(stderr, "sightline-load:", err)
		return exitUsage
	}
	report := l.run(ctx)
	report.print(stdout)
	if err := write(o, report); err != nil {
		fmt.Fprintln(stderr, "sightline-load:", err)
		return exitUsage
	}
	return verdict(&o, report, stderr)
}

// prepare makes what the publishers send.
func prepare(ctx context.Context, o options, stdout io.Writer, encode Encode) (*load, error) {
	clips, err := loadClips(ctx, o, encode)
	if err != nil {
		return nil, err
	}
	sound, err := loadSound(o.speech)
	if err != nil {
		return nil, err
	}
	l, err := newLoad(o, clips, sound, stdout)
	if err != nil {
		return nil, err
	}
	for _, clip := range clips {
		fps := or(o.fps, clip.FPS)
		fmt.Fprintf(stdout, "sending %s, %.3g frames/s, %.0f kbit/s, to %s\n", clip.Name, fps, clip.Bitrate()*fps/clip.FPS/1000, o.url)
	}
	if _, err := l.newSession(o.session, 0); err != nil { // what is wrong with one is wrong with all
		return nil, err
	}
	return l, nil
}

func loadClips(ctx context.Context, o options, encode Encode) (clips []*whipclient.Clip, err error) {
	if o.clip == "" {
		for _, cfg := range o.video() {
			clip, err := encode(ctx, o.codec, cfg)
			if err != nil {
				return nil, err
			}
			clips = append(clips, clip)
		}
		return clips, nil
	}
	for name := range strings.SplitSeq(o.clip, ",") {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		clip, err := whipclient.ReadIVF(name, bytes.NewReader(data))
		if err == nil && o.temporal > 1 {
			err = clip.Temporal(o.temporal)
		}
		if err != nil {
			return nil, err
		}
		clips = append(clips, clip)
	}
	return clips, nil
}

func loadSound(name string) (whipclient.Sound, error) {
	switch name {
	case "":
		return nil, nil
	case "builtin":
		return whipclient.ReadOggOpus("the speech", bytes.NewReader(builtinSpeech))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return whipclient.ReadOggOpus(name, bytes.NewReader(data))
}

func write(o options, r *Report) error {
	if o.json != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(o.json, append(data, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if o.html == "" {
		return nil
	}
	page, err := r.page()
	if err != nil {
		return err
	}
	return os.WriteFile(o.html, page, 0o644)
}

// verdict says in words what is not as it has to be.
func verdict(o *options, r *Report, stderr io.Writer) int {
	sentences, code := o.wrong(r)
	for _, sentence := range sentences {
		fmt.Fprintln(stderr, "sightline-load:", sentence)
	}
	return code
}

// wrong is what is not as it has to be, and the exit code for it.
func (o *options) wrong(r *Report) (sentences []string, code int) {
	if r.Publishers.Connected == 0 {
		why := "is the gateway running there?"
		if kinds := publisherErrors(r); len(kinds) > 0 {
			why = strings.Join(kinds, ", ")
		}
		return []string{fmt.Sprintf("no publisher could connect to %s: %s", o.url, why)}, exitUsage
	}
	complain := func(format string, args ...any) {
		sentences, code = append(sentences, fmt.Sprintf(format, args...)), exitBroken
	}
	if r.Publishers.Failed > 0 && !o.limited("max-errors") {
		complain("%d of %d publishers failed", r.Publishers.Failed, r.Publishers.Sessions)
	}
	if o.agents > 0 && r.Images.Received == 0 {
		complain("no agent received an image")
	}
	if c := r.Context; c.Exact < c.Checked {
		complain("in %d of %d sessions the conversation is not exact: %s", c.Checked-c.Exact, c.Checked, c.Differences[0])
	}
	if r.Publishers.Left > 0 {
		complain("%d sessions could not be deleted", r.Publishers.Left)
	}
	for _, v := range r.Limits {
		if v.Broken {
			complain("limit broken: %s (%s)", v.Sentence, v.Flag)
		}
	}
	return sentences, code
}

// publisherErrors are the kinds of errors that publishers had.
func publisherErrors(r *Report) (kinds []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Errors)) {
		if kind, ok := strings.CutPrefix(name, "publisher: "); ok {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
