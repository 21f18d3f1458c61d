// Package address checks the keys of actors, and writes addresses as keys of maps and for people.
//
// Invariant: two addresses have the same form by [Append] only if they are equal.
package address

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// The limits of an actor's key.
const (
	// MaxParts is how many parts a key may have.
	MaxParts = 16
	// MaxBytes bounds the sum of the parts' lengths.
	MaxBytes = 1024
)

// Check returns an *host.Error with code InvalidArgument or TooLarge if key cannot name an actor.
func Check(key []string) error {
	if len(key) > MaxParts {
		return host.OverLimit("key parts", MaxParts, int64(len(key)))
	}
	n := 0
	for i, p := range key {
		if !utf8.ValidString(p) {
			return host.Errorf(host.InvalidArgument, "key part %d is not valid UTF-8", i+1)
		}
		n += len(p)
	}
	if n > MaxBytes {
		return host.OverLimit("key bytes", MaxBytes, int64(n))
	}
	return nil
}

// Append appends an unambiguous form of an address: the key of the directory of awake actors.
func Append(dst []byte, a host.Address) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(a.Type)))
	dst = append(dst, a.Type...)
	for _, p := range a.Key {
		dst = binary.AppendUvarint(dst, uint64(len(p)))
		dst = append(dst, p...)
	}
	return dst
}

// Parse returns the address that Append gave the form key.
func Parse(key string) (a host.Address) {
	rest := []byte(key)
	part := func() string {
		n, size := binary.Uvarint(rest)
		end := size + int(n)
		text := string(rest[size:end])
		rest = rest[end:]
		return text
	}
	for a.Type = part(); len(rest) > 0; {
		a.Key = append(a.Key, part())
	}
	return a
}

// Format writes an address for people: type/part/part, with the parts quoted as in a URL's path.
func Format(a host.Address) string {
	var b strings.Builder
	b.WriteString(a.Type)
	for _, p := range a.Key {
		b.WriteByte('/')
		for i := 0; i < len(p); i++ {
			switch c := p[i]; {
			case c <= ' ' || c == '/' || c == '%' || c == 0x7f:
				const hex = "0123456789ABCDEF"
				b.WriteByte('%')
				b.WriteByte(hex[c>>4])
				b.WriteByte(hex[c&15])
			default:
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}
