package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

func TestFramesOfEveryLengthArriveWhole(t *testing.T) {
	f := newFront(t, Options{})
	var s *Socket
	ready := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := &hijacker{ResponseWriter: w, front: f}
		ws, err := websocket.Accept(h, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		s = h.socket
		close(ready)
		ws.Read(context.Background())
	}))
	defer server.Close()
	ws, _, err := websocket.Dial(t.Context(), server.URL, nil)
	must(t, err)
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	<-ready
	sizes := []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20}
	var writers sync.WaitGroup
	for _, n := range sizes { // all at once: frames must not mix
		writers.Go(func() { must(t, s.SendAll([][]byte{bytes.Repeat([]byte("a"), n), bytes.Repeat([]byte("b"), n)})) })
	}
	got := make(map[string]int)
	for range 2 * len(sizes) {
		typ, b, err := ws.Read(t.Context())
		fatalIf(t, err != nil || typ != websocket.MessageText, "%v %v", typ, err)
		first := " "
		if len(b) > 0 {
			first = string(b[:1])
		}
		errorIf(t, len(b) > 0 && strings.Trim(string(b), first) != "", "frames mix")
		got[fmt.Sprint(len(b), first)]++
	}
	writers.Wait()
	for _, n := range sizes[1:] {
		errorIf(t, got[fmt.Sprint(n, "a")] != 1 || got[fmt.Sprint(n, "b")] != 1, "%d bytes: %v", n, got)
	}
}

func TestNothingFollowsACloseFrame(t *testing.T) {
	f := newFront(t, Options{})
	client, server := net.Pipe()
	s := &Socket{Conn: server, front: f}
	s.room.L = &s.mu
	var got []byte
	var reader sync.WaitGroup
	reader.Go(func() { got, _ = io.ReadAll(client) })
	must(t, s.Send([]byte("a")))
	s.Farewell([]byte("b"), 1001, "x")
	s.Farewell([]byte("c"), 1011, "y")
	if err := s.Send([]byte("d")); !errors.Is(err, errFarewell) {
		t.Error(err)
	}
	if err := s.SendAll([][]byte{[]byte("e")}); !errors.Is(err, errFarewell) {
		t.Error(err)
	}
	s.Ping()
	s.Write([]byte{frameClose, 0}) // the library's answer
	server.Close()
	reader.Wait()
	want := "\x81\x01a\x81\x01b\x88\x03\x03\xe9x"
	errorIf(t, string(got) != want, "%q", got)
	if err := s.Send([]byte("f")); err == nil {
		t.Error("a closed socket takes a message")
	}
}

func TestWhatCameWithTheHandshakeIsReadFirst(t *testing.T) {
	f := newFront(t, Options{})
	client, server := net.Pipe()
	s := &Socket{Conn: server, front: f, early: []byte("abc")}
	go func() {
		client.Write([]byte("def"))
		client.Close()
	}()
	got, err := io.ReadAll(byteReader{s})
	errorIf(t, err != nil || string(got) != "abcdef", "%q %v", got, err)
}

// byteReader reads byte by byte.
type byteReader struct{ io.Reader }

func (r byteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }
