package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// A listener is a client at the end of a socket. It does as little as a client can: it counts what
// comes, and answers pings, so that the servers are what is compared.
type listener struct {
	conn net.Conn
	r    *bufio.Reader
	// count returns how many messages end in the bytes that came.
	count func([]byte) int
}

// listen opens an event stream, or a WebSocket whose first message is hello, and reads the first
// message.
func listen(addr, path, hello string, sockets bool) *listener {
	conn, err := net.Dial("tcp", addr)
	check(err)
	l := &listener{conn: conn, r: bufio.NewReader(conn)}
	ask := "Accept: text/event-stream\r\n\r\n"
	if sockets {
		key := base64.StdEncoding.EncodeToString(make([]byte, 16))
		ask = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n\r\n"
	}
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\n"+ask)
	check(err)
	status, err := l.r.ReadString('\n')
	check(err)
	for line := "-"; line != "\r\n"; {
		line, err = l.r.ReadString('\n')
		check(err)
	}
	if !strings.Contains(status, " 200 ") && !strings.Contains(status, " 101 ") {
		rest, _ := io.ReadAll(io.LimitReader(l.r, 600))
		fatal(fmt.Errorf("%s of %s: %s", strings.TrimSpace(status), path, rest))
	}
	if !sockets {
		l.count = new(eventCount).count
	} else {
		_, err = conn.Write(maskedFrame(0x81, []byte(hello)))
		check(err)
		l.count = (&frameCount{pong: func() { conn.Write(maskedFrame(0x8A, nil)) }}).count
	}
	if _, err := l.next(1); err != nil {
		fatal(err)
	}
	return l
}

// next waits for messages, at most so many bytes of them at once as are there, and returns how many
// came; at least n.
func (l *listener) next(n int) (came int, err error) {
	for came < n {
		if _, err := l.r.Peek(1); err != nil {
			return came, err
		}
		b, _ := l.r.Peek(l.r.Buffered())
		came += l.count(b)
		l.r.Discard(len(b))
	}
	return came, nil
}

// maskedFrame returns a frame of a client's, masked with zeros; the payload is short.
func maskedFrame(first byte, payload []byte) []byte {
	if len(payload) > 125 {
		fatal(errors.New("the frame is too long for a short header"))
	}
	return append([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// An eventCount counts server-sent events: each ends in an empty line, which chunks do not have.
type eventCount struct{ last byte }

func (c *eventCount) count(b []byte) int {
	n := bytes.Count(b, []byte("\n\n"))
	if c.last == '\n' && len(b) > 0 && b[0] == '\n' {
		n++
	}
	if len(b) > 0 {
		c.last = b[len(b)-1]
	}
	return n
}

// A frameCount counts the text frames of a WebSocket.
type frameCount struct {
	pong   func()
	header [10]byte
	have   int // bytes of the header
	body   int // bytes of the payload that are to come
}

func (c *frameCount) count(b []byte) (n int) {
	for len(b) > 0 {
		if c.body > 0 {
			skip := min(c.body, len(b))
			c.body -= skip
			b = b[skip:]
		} else {
			c.header[c.have] = b[0]
			c.have++
			b = b[1:]
			if !c.headed() {
				continue
			}
		}
		if c.body == 0 {
			n += c.end()
		}
	}
	return n
}

// headed reports that the header is complete, and notes how long the payload is.
func (c *frameCount) headed() bool {
	size := 2
	if c.have >= 2 {
		switch c.body = int(c.header[1]); c.body {
		case 126:
			size = 4
		case 127:
			size = 10
		}
	}
	if c.have < size {
		c.body = 0
		return false
	}
	if size > 2 {
		c.body = 0
		for _, d := range c.header[2:size] {
			c.body = c.body<<8 | int(d)
		}
	}
	return true
}

// end takes in that a frame is complete.
func (c *frameCount) end() int {
	c.have = 0
	switch c.header[0] & 0x0F {
	case 1:
		return 1
	case 9:
		c.pong()
	}
	return 0
}
