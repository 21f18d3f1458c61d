package queuerows

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errCorrupt is wrapped by errors about rows that this package did not write.
var errCorrupt = errors.New("queue: corrupt row")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCorrupt, fmt.Sprintf(format, args...))
}

// format is the first byte of every record. Fields are only added at the end of the fixed part,
// with another format.
const format = 1

// A scan takes a record apart. After the first error it returns only zero values.
type scan struct {
	b   []byte
	err error
}

func (s *scan) fail(reason string) {
	if s.err == nil {
		s.err = errors.New(reason)
	}
	s.b = nil
}

func (s *scan) take(n int) []byte {
	if n < 0 || n > len(s.b) {
		s.fail("it is too short")
		return nil
	}
	b := s.b[:n:n]
	s.b = s.b[n:]
	return b
}

func (s *scan) byte() byte {
	if b := s.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (s *scan) u16() uint16 {
	if b := s.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (s *scan) u32() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scan) u64() uint64 {
	if b := s.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// ms reads a time in Unix milliseconds, which is never negative.
func (s *scan) ms() int64 {
	v := s.u64()
	if v > maxTime {
		s.fail("a time is out of range")
		return 0
	}
	return int64(v)
}

// maxTime bounds times, in Unix ms: about the year 142,000.
const maxTime = 1 << 52

func (s *scan) uvarint() uint64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 {
		s.fail("a number does not end")
		return 0
	}
	s.b = s.b[n:]
	return v
}

func (s *scan) varint() int64 {
	v, n := binary.Varint(s.b)
	if n <= 0 {
		s.fail("a number does not end")
		return 0
	}
	s.b = s.b[n:]
	return v
}

// text reads a length and that many bytes, at most limit.
func (s *scan) text(limit int) []byte {
	n := s.uvarint()
	if n > uint64(limit) || n > uint64(len(s.b)) {
		s.fail("a text is too long")
		return nil
	}
	return s.take(int(n))
}

func (s *scan) format() {
	if b := s.take(1); b != nil && b[0] != format {
		s.fail(fmt.Sprintf("unknown format %d", b[0]))
	}
}

// end returns the error, if there is one or if bytes are left.
func (s *scan) end() error {
	if s.err == nil && len(s.b) > 0 {
		s.fail("there is more after its end")
	}
	return s.err
}

func appendText[T ~string | []byte](b []byte, t T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(t))), t...)
}
