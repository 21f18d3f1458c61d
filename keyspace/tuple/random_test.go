package tuple

import (
	"encoding/binary"
	"math"
	"math/big"
)

// source makes tuples from bytes, so one generator serves fuzzers (which mutate the bytes) and
// random tests (which draw them). It makes only elements with an encoding, and prefers edge cases.
type source struct{ b []byte }

func (s *source) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c
}

func (s *source) take(n int) []byte {
	out := make([]byte, n)
	s.b = s.b[copy(out, s.b):]
	return out
}

func (s *source) uint64() uint64 { return binary.BigEndian.Uint64(s.take(8)) }

// text takes up to 7 bytes. It replaces odd bytes by bytes that the encoding
// treats specially.
func (s *source) text() []byte {
	n := int(s.byte() % 8)
	out := s.take(n)
	for i, c := range out {
		if c%2 == 1 {
			out[i] = []byte{0x00, 0xFF, 0x01, 0x05}[c>>1%4]
		}
	}
	return out
}

func (s *source) tuple(depth int) Tuple {
	t := Tuple{}
	for n := s.byte() % 5; n > 0; n-- {
		t = append(t, s.element(depth))
	}
	return t
}

func (s *source) element(depth int) any {
	switch s.byte() % 16 {
	case 0:
		return nil
	case 1:
		return s.text()
	case 2:
		return string(s.text())
	case 3:
		return int64(s.uint64() >> (s.byte() % 64))
	case 4:
		return -int64(s.uint64() >> (s.byte()%63 + 1))
	case 5:
		return s.uint64()
	case 6:
		shift := uint(s.byte()) * 8 % 2033
		v := new(big.Int).Lsh(big.NewInt(int64(s.byte())), shift)
		if s.byte()%2 == 0 {
			v.Add(v, big.NewInt(int64(int8(s.byte()))))
		}
		if s.byte()%2 == 0 {
			v.Neg(v)
		}
		if v.BitLen() > 2040 {
			v.Rsh(v, 8)
		}
		return v
	case 7:
		return []any{int64(math.MinInt64), int64(math.MaxInt64), uint64(1 << 63), int64(-255), int64(-256), int64(256), 0}[s.byte()%7]
	case 8:
		return math.Float32frombits(binary.BigEndian.Uint32(s.take(4)))
	case 9:
		return math.Float64frombits(s.uint64())
	case 10:
		return s.byte()%2 == 0
	case 11:
		return UUID(s.take(16))
	case 12:
		v := Versionstamp{Transaction: [10]byte(s.take(10)), User: uint16(s.byte())}
		if !v.Complete() {
			v.Transaction[0] = 0
		}
		return v
	default:
		if depth == 0 {
			return int64(s.byte())
		}
		return s.tuple(depth - 1)
	}
}
