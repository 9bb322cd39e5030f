package chatctx

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"testing"
	"time"
)

// openAt is a fixed point in time, so that tests have nothing that changes from run to run.
var origin = Origin{Author: "tester", Epoch: 1, At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}

func mustOpen(t testing.TB, s Store) *Log {
	t.Helper()
	l, err := OpenLog(t.Context(), LogConfig{Store: s, Session: "s"})
	if err != nil {
		t.Fatalf("OpenLog: %v", err)
	}
	return l
}

func mustAppend(t testing.TB, l *Log, op Op) Ack {
	t.Helper()
	ack, err := l.Append(t.Context(), origin, op)
	if err != nil {
		t.Fatalf("Append of op %s: %v", op.ID, err)
	}
	return ack
}

// say makes the op that appends a message; the item's id is the op's.
func say(id string, role Role, text string) Op {
	return Op{ID: id, Kind: OpAppend, Item: &Message{ID: id, Role: role, Content: TextContent(text)}}
}

// wantError checks an error's kind and field.
func wantError(t testing.TB, err error, kind ErrorKind, field string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("error %v, want %s of field %q", err, kind, field)
		return
	}
	if e.Kind != kind || e.Field != field {
		t.Errorf("error %s of field %q (%v), want %s of field %q", e.Kind, e.Field, e, kind, field)
	}
	if len(e.Error()) > 600 {
		t.Errorf("the error text has %d bytes: %.100s", len(e.Error()), e.Error())
	}
}

// pngBytes makes a real PNG of w×h pixels.
func pngBytes(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// generic reads JSON into maps and lists, for comparing without regard to the order of keys.
func generic(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
