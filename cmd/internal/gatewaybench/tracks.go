package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sightline/cmd/internal/whipclient"
)

// nobody is the pseudo policy of tracks without an agent.
const nobody = "nobody"

// tracks: what a track costs by the policy of decoding it, and so how many a core can take.
func (b *bench) tracks(ctx context.Context) error {
	fmt.Fprintf(b.out, "%d tracks of %d×%d at %.1f frames/s and %.2f Mbit/s, an agent each at 1 image/s of 1024×1024, for %.0f s a row; *tracks a core* is the core's second by a track's:\n\n",
		b.trackCount, b.tracked.Width, b.tracked.Height, b.tracked.FPS, b.tracked.Bitrate()/1e6, b.seconds.Seconds())
	fmt.Fprint(b.out, "| policy | in effect | CPU of a track, ms/s | tracks a core | CPU of a packet, µs | image p50 · p99, ms |\n|---|---|---|---|---|---|\n")
	for _, policy := range strings.Split(b.policies, ",") {
		row, f, err := b.trackRow(ctx, policy)
		if err != nil {
			return fmt.Errorf("policy %s: %w", policy, err)
		}
		fmt.Fprintln(b.out, row)
		if late := float64(f.late) / float64(max(f.frames, 1)); late > 0.01 {
			defer fmt.Fprintf(b.out, "Policy %s: %.0f %% of the frames were sent late: this machine was too busy for these figures.\n\n", policy, 100*late)
		}
	}
	fmt.Fprintln(b.out)
	return nil
}

func (b *bench) trackRow(ctx context.Context, policy string) (row string, f figures, err error) {
	fps := 1.0
	if policy == nobody {
		fps = 0
	}
	c, err := b.start(ctx, "tracks-"+policy, b.trackCount, b.tracked, fps)
	if err != nil {
		return "", f, err
	}
	inEffect := "–"
	if policy != nobody {
		for _, id := range c.ids {
			if err == nil {
				err = b.setPolicy(ctx, id, policy)
			}
		}
	}
	if err == nil {
		f, err = c.measure(ctx)
	}
	if err == nil && policy != nobody {
		inEffect, err = b.policyOf(ctx, c.ids[0])
	}
	if err = errors.Join(err, c.end()); err != nil {
		return "", f, err
	}
	each := 1000 * f.cpu.Seconds() / f.took.Seconds() / float64(b.trackCount)
	images := "–"
	if len(f.latencies) > 0 {
		images = fmt.Sprintf("%.0f · %.0f", ms(quantile(f.latencies, 0.5)), ms(quantile(f.latencies, 0.99)))
	}
	return fmt.Sprintf("| %s | %s | %.2f | %.0f | %.1f | %s |", policy, inEffect, each, 1000/each, float64(f.cpu.Microseconds())/float64(max(f.packets, 1)), images), f, nil
}

// setPolicy waits for the session's camera, then sets how it is decoded.
func (b *bench) setPolicy(ctx context.Context, id, policy string) error {
	url := b.gateway.URL + "/v1/sessions/" + id + "/sources/camera"
	for begun := time.Now(); ; <-time.After(50 * time.Millisecond) {
		status, body, err := b.do(ctx, http.MethodPatch, url, `{"policy":"`+policy+`"}`)
		if err != nil || status == http.StatusOK {
			return err
		}
		if status != http.StatusNotFound || time.Since(begun) > 10*time.Second {
			return fmt.Errorf("PATCH %s: %d %s", url, status, body)
		}
	}
}

// policyOf is the policy in effect of a session's first source.
func (b *bench) policyOf(ctx context.Context, id string) (string, error) {
	_, body, err := b.do(ctx, http.MethodGet, b.gateway.URL+"/v1/sessions/"+id, "")
	if err != nil {
		return "", err
	}
	var state struct {
		Sources []struct {
			InEffect string `json:"policy_in_effect"`
		} `json:"sources"`
	}
	if err := json.Unmarshal(body, &state); err != nil || len(state.Sources) == 0 {
		return "", fmt.Errorf("no source in %s", body)
	}
	return state.Sources[0].InEffect, nil
}

func (b *bench) do(ctx context.Context, method, url, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// loadTracked reads the clip of the part tracks.
func (b *bench) loadTracked(name string) (err error) {
	if b.trackCount < 1 {
		return errors.New("--tracks must be above 0")
	}
	var clip *whipclient.Clip
	clip, err = readClip(name)
	b.tracked = clip
	return err
}
