package tuple

import (
	"math/big"
	"testing"
)

// appendWorkflowKey writes the tuple (2, 3, (3, 7), 5): a step in a loop.
func appendWorkflowKey(dst []byte) []byte {
	dst = AppendInt(dst, 2)
	dst = AppendInt(dst, 3)
	dst = BeginNested(dst)
	dst = AppendInt(dst, 3)
	dst = AppendInt(dst, 7)
	dst = EndNested(dst)
	return AppendInt(dst, 5)
}

func decodeWorkflowKey(b []byte) (sum int64, err error) {
	d := NewDecoder(b)
	for depth := 0; ; {
		switch d.Peek() {
		case TypeTuple:
			depth++
			err = d.Nested()
		case TypeEnd:
			if depth == 0 {
				return sum, d.End()
			}
			depth--
			err = d.EndNested()
		default:
			var v int64
			v, err = d.Int()
			sum += v
		}
		if err != nil {
			return 0, err
		}
	}
}

var workflowKey = Tuple{2, 3, Tuple{3, 7}, 5}

func TestEncodingIntoABufferWithRoomDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	huge := negated(power(2000, 0))
	whole := Tuple{nil, []byte("a\x00b"), "c\x00d", Tuple{nil, Tuple{1}}, 1 << 40, -1 << 40, huge, big.NewInt(-7),
		float32(1), 2.0, true, UUID{1}, Versionstamp{User: 1}}
	for name, encode := range map[string]func() error{
		"workflow key, by element": func() error { appendWorkflowKey(buf); return nil },
		"workflow key, as Tuple":   func() error { _, err := Append(buf, workflowKey); return err },
		"every type, as Tuple":     func() error { _, err := Append(buf, whole); return err },
	} {
		if n := testing.AllocsPerRun(100, func() {
			must(t, encode())
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestTypedDecodingDoesNotAllocate(t *testing.T) {
	packed := appendWorkflowKey(nil)
	text := AppendBytes(AppendBytes(nil, []byte("plain")), []byte("a\x00b"))
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		sum, err := decodeWorkflowKey(packed)
		if err != nil || sum != 20 {
			t.Fatal(sum, err)
		}
		d := NewDecoder(text)
		if _, err := d.Bytes(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.AppendBytes(buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEncodeWorkflowKey(b *testing.B) {
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendWorkflowKey(buf[:0])
	}
}

func BenchmarkEncodeWorkflowKeyAsTuple(b *testing.B) {
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		buf, err = Append(buf[:0], workflowKey)
		must(b, err)
	}
}

func BenchmarkDecodeWorkflowKey(b *testing.B) {
	packed := appendWorkflowKey(nil)
	b.ReportAllocs()
	for b.Loop() {
		_, err := decodeWorkflowKey(packed)
		must(b, err)
	}
}

func BenchmarkUnpackWorkflowKey(b *testing.B) {
	packed := appendWorkflowKey(nil)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Unpack(packed)
		must(b, err)
	}
}
