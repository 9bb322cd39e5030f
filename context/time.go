package chatctx

import (
	"bytes"
	"time"
)

// TimeFormat is how times are written on every wire: RFC 3339 with milliseconds, UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// Time is a point in time that marshals as TimeFormat. The zero Time is omitted by `omitzero`.
type Time struct{ time.Time }

// At makes a Time of t in UTC, cut to the milliseconds that the wire carries, so that a round trip changes nothing.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes TimeFormat.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(TimeFormat)+2)
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, TimeFormat)
	return append(b, '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time of the years 1 to 9999 in UTC, which are those that can be written again.
func (t *Time) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	parsed, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(data))
	at := At(parsed)
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		return fail(InvalidArgument, "", "%s is no RFC 3339 time", string(data))
	}
	*t = at
	return nil
}
