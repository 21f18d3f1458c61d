package journal

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
	Form1 = 1 // BARE, of another engine
	Form2 = 2 // see value.go
)

// ErrNewer is wrapped by errors about rows that a newer version of this package has written.
var ErrNewer = errors.New("written by a newer version")

// A CorruptError says that a row of a run is invalid.
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

// Corrupt makes a CorruptError about a row, whose key it copies. It returns a CorruptError, or nil,
// unchanged.
func Corrupt(key []byte, err error) error {
	if _, is := errors.AsType[*CorruptError](err); err == nil || is {
		return err
	}
	return &CorruptError{append([]byte(nil), key...), err}
}

// A SyntaxError says where the bytes of a value become invalid.
type SyntaxError struct {
	What   string // the value that was read, such as "entry"
	Offset int    // of the byte at fault
	Reason string
}

func (e *SyntaxError) Error() string {
	return "workflow: " + e.What + ": byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// Newer makes an error that matches ErrNewer.
func Newer(format string, args ...any) error {
	return fmt.Errorf("workflow: %s: %w", fmt.Sprintf(format, args...), ErrNewer)
}

// A Decoder decodes a value. After an error it returns zeros, so that a caller may check once at
// the end. It accepts each value in one form only: integers have no leading zeros.
type Decoder struct {
	What string // the value, for errors
	B    []byte
	Off  int   // of the next byte
	Err  error // the first
}

// Fail records the first error.
func (r *Decoder) Fail(at int, reason string) {
	if r.Err == nil {
		r.Err = &SyntaxError{r.What, at, reason}
	}
}

func (r *Decoder) byte() byte {
	if r.Err != nil || r.Off >= len(r.B) {
		r.Fail(r.Off, "ends too early")
		return 0
	}
	r.Off++
	return r.B[r.Off-1]
}

// Uvarint reads a number.
func (r *Decoder) Uvarint() uint64 {
	if r.Err != nil {
		return 0
	}
	if r.Off < len(r.B) && r.B[r.Off] < 0x80 {
		r.Off++
		return uint64(r.B[r.Off-1])
	}
	v, n := binary.Uvarint(r.B[r.Off:])
	switch {
	case n == 0:
		r.Fail(r.Off, "ends too early")
		return 0
	case n < 0:
		r.Fail(r.Off, "number does not fit 64 bits")
		return 0
	case r.B[r.Off+n-1] == 0:
		r.Fail(r.Off, "number has a leading zero")
		return 0
	}
	r.Off += n
	return v
}

func (r *Decoder) uint32() uint32 {
	at := r.Off
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.Fail(at, "number does not fit 32 bits")
		return 0
	}
	return uint32(v)
}

// Take returns the next n bytes; they alias the input.
func (r *Decoder) Take(n uint64) []byte {
	if r.Err != nil || n > uint64(len(r.B)-r.Off) {
		r.Fail(r.Off, "ends too early")
		return nil
	}
	at := r.Off
	r.Off += int(n)
	return r.B[at:r.Off:r.Off]
}

// Bytes reads a length and returns as many bytes.
func (r *Decoder) Bytes() []byte { return r.Take(r.Uvarint()) }

// String is Bytes, as a string.
func (r *Decoder) String() string { return string(r.Bytes()) }

// Count reads the number of the items that follow, of at least one byte each.
func (r *Decoder) Count() int {
	at := r.Off
	n := r.Uvarint()
	if n > uint64(len(r.B)-r.Off) {
		r.Fail(at, "more items than bytes")
		return 0
	}
	return int(n)
}

// time reads milliseconds; 0 is the zero time.
func (r *Decoder) time() time.Time { return FromMillis(int64(r.Uvarint())) }

// End checks that nothing follows.
func (r *Decoder) End() error {
	if r.Err == nil && r.Off < len(r.B) {
		r.Fail(r.Off, "bytes after the end")
	}
	return r.Err
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendUvarint(dst, uint64(Millis(t)))
}

// Millis returns the Unix time of t in ms, and 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis is the inverse of Millis: 0 is the zero time.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// FormOf returns the form of a value.
func FormOf(what string, value []byte) (uint16, error) {
	if len(value) < 2 {
		return 0, &SyntaxError{what, len(value), "ends too early"}
	}
	form := binary.LittleEndian.Uint16(value)
	switch form {
	case Form1, Form2:
		return form, nil
	case 0:
		return 0, &SyntaxError{what, 0, "form 0"}
	default:
		return 0, Newer("%s of form %d", what, form)
	}
}
