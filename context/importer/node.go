package importer

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// node is a JSON value inside an element that is known to be valid JSON: its bytes and where they stand in the input. Nothing
// is parsed before it is asked for, so that a value nobody looks into costs nothing.
type node struct {
	raw []byte
	off int64
}

// kinds of JSON values, as they begin.
const (
	objectKind = '{'
	arrayKind  = '['
	stringKind = '"'
	numberKind = '0'
	boolKind   = 't'
	nullKind   = 'n'
	noKind     = 0
)

func (n node) kind() byte {
	if len(n.raw) == 0 {
		return noKind
	}
	switch c := n.raw[0]; c {
	case '{', '[', '"', 't', 'n':
		return c
	case 'f':
		return boolKind
	}
	return numberKind
}

// given reports whether the value is there and not null.
func (n node) given() bool { k := n.kind(); return k != noKind && k != nullKind }

// empty reports whether the value says nothing: absent, null, false, "", [] or {}.
func (n node) empty() bool {
	switch n.kind() {
	case noKind, nullKind:
		return true
	case boolKind:
		return n.raw[0] == 'f'
	}
	t := bytes.TrimSpace(n.raw)
	return len(t) >= 2 && (string(t) == `""` || len(bytes.TrimSpace(t[1:len(t)-1])) == 0 && (t[0] == '[' || t[0] == '{'))
}

func kindName(k byte) string {
	switch k {
	case objectKind:
		return "an object"
	case arrayKind:
		return "a list"
	case stringKind:
		return "a string"
	case numberKind:
		return "a number"
	case boolKind:
		return "true or false"
	case nullKind:
		return "null"
	}
	return "nothing"
}

// skipSpace gives the next position that is no white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue gives the position after the value that begins at i of valid JSON.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth <= 0 {
				if depth < 0 { // the end of what holds a scalar
					return i
				}
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// skipString gives the position after the string that begins at i of valid JSON.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		end := bytes.IndexByte(b[i:], '"')
		if end < 0 {
			return len(b)
		}
		end += i
		slashes := 0
		for k := end - 1; k >= i && b[k] == '\\'; k-- {
			slashes++
		}
		i = end + 1
		if slashes%2 == 0 {
			return i
		}
	}
	return len(b)
}

// each calls f for each value of a list until f says false.
func (n node) each(f func(i int, v node) bool) {
	if n.kind() != arrayKind {
		return
	}
	for i, k := skipSpace(n.raw, 1), 0; i < len(n.raw) && n.raw[i] != ']'; k++ {
		end := skipValue(n.raw, i)
		if !f(k, node{n.raw[i:end], n.off + int64(i)}) {
			return
		}
		i = skipSpace(n.raw, end)
		if i < len(n.raw) && n.raw[i] == ',' {
			i = skipSpace(n.raw, i+1)
		}
	}
}

// maxFields bounds how many fields of one object are looked at.
const maxFields = 512

// object is an object's fields by name; of a name given twice the last counts, as everywhere.
type object struct {
	node
	fields map[string]node
	order  []string
	twice  string // a name given twice, "" = none
	more   int    // fields beyond maxFields
}

func (o object) get(names ...string) node {
	for _, name := range names {
		if v, ok := o.fields[name]; ok {
			return v
		}
	}
	return node{}
}

func (o object) has(names ...string) bool {
	for _, name := range names {
		if _, ok := o.fields[name]; ok {
			return true
		}
	}
	return false
}

// str is a field's string for a look at it; "" when it is none. Reading proper goes through the builder, which reports.
func (o object) str(names ...string) string {
	v := o.get(names...)
	if v.kind() != stringKind || len(v.raw) > 4096 {
		return ""
	}
	s, _ := unquote(v.raw)
	return s
}

// eachField calls f for each field of an object until f says false.
func (n node) eachField(f func(key string, v node) bool) {
	if n.kind() != objectKind {
		return
	}
	for i := skipSpace(n.raw, 1); i < len(n.raw) && n.raw[i] == '"'; {
		end := skipString(n.raw, i)
		key, _ := unquote(n.raw[i:end])
		i = skipSpace(n.raw, end)
		i = skipSpace(n.raw, i+1) // past the colon
		end = skipValue(n.raw, i)
		if !f(key, node{n.raw[i:end], n.off + int64(i)}) {
			return
		}
		i = skipSpace(n.raw, end)
		if i < len(n.raw) && n.raw[i] == ',' {
			i = skipSpace(n.raw, i+1)
		}
	}
}

func (n node) object() object {
	o := object{node: n, fields: map[string]node{}}
	n.eachField(func(key string, v node) bool {
		_, there := o.fields[key]
		switch {
		case there:
			o.twice = key
			o.fields[key] = v
		case len(o.fields) < maxFields:
			o.order = append(o.order, key)
			o.fields[key] = v
		default:
			o.more++
		}
		return true
	})
	return o
}

// unquote reads a valid JSON string. broken says what it had that no text can hold: "" or one of the two words.
func unquote(raw []byte) (s, broken string) {
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		if utf8.Valid(body) {
			return string(body), ""
		}
		return string(bytes.ToValidUTF8(body, []byte("\uFFFD"))), "invalid UTF-8"
	}
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		c := body[i]
		if c < utf8.RuneSelf && c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		if c != '\\' {
			r, size := utf8.DecodeRune(body[i:])
			if r == utf8.RuneError && size == 1 {
				broken = "invalid UTF-8"
			}
			out = utf8.AppendRune(out, r)
			i += size
			continue
		}
		if body[i+1] != 'u' {
			out = append(out, unescaped(body[i+1]))
			i += 2
			continue
		}
		r := hex4(body[i+2 : i+6])
		i += 6
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+6 <= len(body) && body[i] == '\\' && body[i+1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(body[i+2:i+6]))
			}
			if pair == utf8.RuneError {
				broken = "a lone surrogate"
			} else {
				i += 6
			}
			r = pair
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), broken
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(b []byte) rune {
	v, _ := strconv.ParseUint(string(b), 16, 32) // valid JSON has four hex digits here
	return rune(v)
}

// compact is the value's JSON without white space, as text.
func (n node) compact() (s string, broken bool) {
	var b bytes.Buffer
	if err := json.Compact(&b, n.raw); err != nil {
		return string(n.raw), !utf8.Valid(n.raw)
	}
	if !utf8.Valid(b.Bytes()) {
		return string(bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD"))), true
	}
	return b.String(), false
}
