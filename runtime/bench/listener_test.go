package main

import "testing"

// TestCountsDoNotDependOnHowBytesCome cuts a conversation in two at every byte.
func TestCountsDoNotDependOnHowBytesCome(t *testing.T) {
	pongs := 0
	long := string(append([]byte{0x81, 126, 0x01, 0x2C}, make([]byte, 300)...))
	longer := string(append([]byte{0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0}, make([]byte, 1<<16)...))
	for name, c := range map[string]struct {
		text  string
		want  int
		pongs int
		count func() func([]byte) int
	}{
		"events":       {"1a\r\nid: 1\ndata: x\n\n\r\n5\r\n:\n\n\r\n", 2, 0, func() func([]byte) int { return new(eventCount).count }},
		"frames":       {"\x81\x03abc\x81\x00\x89\x02hi" + long + "\x89\x00", 3, 2, nil},
		"a long frame": {longer + "\x81\x01a", 2, 0, nil},
	} {
		if c.count == nil {
			c.count = func() func([]byte) int { return (&frameCount{pong: func() { pongs++ }}).count }
		}
		for cut := 0; cut <= min(len(c.text), 400); cut++ {
			pongs = 0
			count := c.count()
			if n := count([]byte(c.text[:cut])) + count([]byte(c.text[cut:])); n != c.want || pongs != c.pongs {
				t.Fatalf("%s, cut at %d: %d messages and %d pongs, want %d and %d", name, cut, n, pongs, c.want, c.pongs)
			}
		}
	}
}
