package engine

import "encoding/binary"

// decoder reads the values of the engine's own rows. It keeps the first fault;
// after one, everything reads as zero.
type decoder struct {
	b      []byte
	reason string
}

func (d *decoder) fail(reason string) {
	if d.reason == "" {
		d.reason = reason
	}
	d.b = nil
}

// format reads the first byte of a value and refuses a newer format than want.
func (d *decoder) format(want byte) {
	switch v := d.byte(); {
	case d.reason != "":
	case v == 0 || v > want:
		d.fail("unknown format of the value")
	}
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("value ends too early")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes reads a length and as many bytes, which alias the value.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail("bad length")
		return nil
	}
	return d.take(int(n))
}

// take reads n bytes, which alias the value.
func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail("value ends too early")
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes()) }

// count reads the number of elements that follow, each of which takes at least
// a byte, so that a bad count cannot ask for much memory.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail("bad count")
		return 0
	}
	return int(n)
}

// end returns the fault, or one if bytes are left.
func (d *decoder) end() error {
	if d.reason == "" && len(d.b) > 0 {
		d.reason = "bytes after the value"
	}
	if d.reason != "" {
		return &CorruptError{Reason: d.reason}
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
