package engine

import "encoding/binary"

// decoder reads the values of the engine's own rows, from at on. It keeps the first fault;
// after one, everything reads as zero.
type decoder struct {
	b      []byte
	at     int
	reason string
}

// rest returns the unread bytes.
func (d *decoder) rest() []byte { return d.b[d.at:] }

func (d *decoder) fail(reason string) {
	if d.reason == "" {
		d.reason = reason
	}
	d.at = len(d.b)
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
	if d.at == len(d.b) {
		d.fail("value ends too early")
		return 0
	}
	d.at++
	return d.b[d.at-1]
}

func (d *decoder) uvarint() uint64 {
	if d.at < len(d.b) && d.b[d.at] < 0x80 {
		d.at++
		return uint64(d.b[d.at-1])
	}
	return d.long()
}

// long is uvarint for numbers of several bytes.
func (d *decoder) long() uint64 {
	v, n := binary.Uvarint(d.rest())
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) varint() int64 { return zigzag(d.uvarint()) }

// bytes reads a length and as many bytes, which alias the value.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest())) {
		d.fail("bad length")
		return nil
	}
	return d.take(int(n))
}

// take reads n bytes, which alias the value.
func (d *decoder) take(n int) []byte {
	if n > len(d.rest()) {
		d.fail("value ends too early")
		return nil
	}
	d.at += n
	return d.b[d.at-n : d.at : d.at]
}

func (d *decoder) string() string { return string(d.bytes()) }

// count reads the number of elements that follow, each of which takes at least a byte, so a bad
// count cannot allocate much memory.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest())) {
		d.fail("bad count")
		return 0
	}
	return int(n)
}

// end returns the fault, or one if bytes are left.
func (d *decoder) end() error {
	if d.reason == "" && d.at < len(d.b) {
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
