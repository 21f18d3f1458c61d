package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/keyspace"
)

// The form of a value is its first two bytes, little-endian.
const (
	form1 = 1 // BARE, see value1.go
	form2 = 2 // see value.go
)

// ErrNewer is wrapped by errors about rows that a newer version of this package has written.
var ErrNewer = errors.New("written by a newer version")

// A CorruptError says that a row of a run is not what it should be.
type CorruptError struct {
	Key []byte // of the row; nil if it is not known
	Err error
}

func (e *CorruptError) Error() string {
	if e.Key == nil {
		return "workflow: corrupt: " + e.Err.Error()
	}
	return "workflow: row " + keyspace.Format(e.Key) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt makes a CorruptError about a row, whose key it copies. Errors that are one already are returned as they are.
func corrupt(key []byte, err error) error {
	if _, is := errors.AsType[*CorruptError](err); err == nil || is {
		return err
	}
	return &CorruptError{append([]byte(nil), key...), err}
}

// A SyntaxError says where the bytes of a value stop being what they should be.
type SyntaxError struct {
	What   string // what was being read, such as "entry"
	Offset int    // of the byte at fault
	Reason string
}

func (e *SyntaxError) Error() string {
	return "workflow: " + e.What + ": byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// newer makes an error that matches ErrNewer.
func newer(format string, args ...any) error {
	return fmt.Errorf("workflow: %s: %w", fmt.Sprintf(format, args...), ErrNewer)
}

// A reader takes a value apart. After an error it returns zeros, so that a decoder may check once at the end. It accepts
// each value in one form only: integers have no leading zeros.
type reader struct {
	what string
	b    []byte
	off  int
	err  error
}

func (r *reader) fail(at int, reason string) {
	if r.err == nil {
		r.err = &SyntaxError{r.what, at, reason}
	}
}

func (r *reader) byte() byte {
	if r.err != nil || r.off >= len(r.b) {
		r.fail(r.off, "ends too early")
		return 0
	}
	r.off++
	return r.b[r.off-1]
}

func (r *reader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	if r.off < len(r.b) && r.b[r.off] < 0x80 {
		r.off++
		return uint64(r.b[r.off-1])
	}
	v, n := binary.Uvarint(r.b[r.off:])
	switch {
	case n == 0:
		r.fail(r.off, "ends too early")
		return 0
	case n < 0:
		r.fail(r.off, "number does not fit 64 bits")
		return 0
	case r.b[r.off+n-1] == 0:
		r.fail(r.off, "number has a leading zero")
		return 0
	}
	r.off += n
	return v
}

func (r *reader) uint32() uint32 {
	at := r.off
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.fail(at, "number does not fit 32 bits")
		return 0
	}
	return uint32(v)
}

// take returns the next n bytes; they alias the input.
func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)-r.off) {
		r.fail(r.off, "ends too early")
		return nil
	}
	at := r.off
	r.off += int(n)
	return r.b[at:r.off:r.off]
}

// bytes returns what a length precedes.
func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

func (r *reader) string() string { return string(r.bytes()) }

// count reads how many items follow, of at least one byte each.
func (r *reader) count() int {
	at := r.off
	n := r.uvarint()
	if n > uint64(len(r.b)-r.off) {
		r.fail(at, "more items than bytes")
		return 0
	}
	return int(n)
}

// time reads milliseconds; 0 is the zero time.
func (r *reader) time() time.Time { return fromMillis(int64(r.uvarint())) }

// end checks that nothing follows.
func (r *reader) end() error {
	if r.err == nil && r.off < len(r.b) {
		r.fail(r.off, "bytes after the end")
	}
	return r.err
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendUvarint(dst, uint64(millis(t)))
}

// millis returns the Unix time of t in ms, and 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMillis is the inverse of millis: 0 is the zero time.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// formOf returns the form of a value.
func formOf(what string, value []byte) (uint16, error) {
	if len(value) < 2 {
		return 0, &SyntaxError{what, len(value), "ends too early"}
	}
	form := binary.LittleEndian.Uint16(value)
	switch form {
	case form1, form2:
		return form, nil
	case 0:
		return 0, &SyntaxError{what, 0, "form 0"}
	default:
		return 0, newer("%s of form %d", what, form)
	}
}
