package kvconnect_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// watched is a Watch of keys.
func watched(keys ...[]byte) (b []byte) {
	for _, k := range keys {
		b = append(b, message(1, message(1, k))...)
	}
	return b
}

// listen serves the gateway over a network until the answers are closed at the end of the test.
func (d *database) listen() *httptest.Server {
	server := httptest.NewServer(d.Gateway)
	d.T.Cleanup(server.Close)
	return server
}

// frames opens a watch over a network, and returns the answer.
func (d *database) frames(server *httptest.Server, keys ...[]byte) *http.Response {
	d.T.Helper()
	r, err := http.NewRequestWithContext(d.T.Context(), http.MethodPost, server.URL+d.base.Path+"/watch", bytes.NewReader(watched(keys...)))
	must(d.T, err)
	r.Header = d.header.Clone()
	w, err := server.Client().Do(r)
	must(d.T, err)
	d.T.Cleanup(func() { w.Body.Close() })
	fatalIf(d.T, w.StatusCode != http.StatusOK || w.Header.Get("Content-Type") != "application/octet-stream",
		"%v %v", w.StatusCode, w.Header)
	return w
}

// frame reads the next frame that is not empty, as text: for each key "gone", or the encoding and the value.
func frame(t *testing.T, w *http.Response) string {
	t.Helper()
	for {
		var size [4]byte
		must(t, errOf(io.ReadFull(w.Body, size[:])))
		n := binary.LittleEndian.Uint32(size[:])
		if n == 0 {
			continue
		}
		b := make([]byte, n)
		must(t, errOf(io.ReadFull(w.Body, b)))
		fields := repeated(b)
		errorIf(t, fields[0][0] != 1, "the status is %d", fields[0][0])
		var keys []string
		for _, k := range fields[1:] {
			text := "gone"
			if parts := repeated(k); len(parts) > 1 {
				e := repeated(parts[1])
				text = fmt.Sprintf("%x %x", e[2], e[1])
			}
			keys = append(keys, text)
		}
		return strings.Join(keys, ", ")
	}
}

func TestWatchTellsTheStatesOfKeys(t *testing.T) {
	d := open(t, serve.Options{Limits: serve.Limits{Heartbeat: 20 * time.Millisecond}})
	server := d.listen()
	a, b, c := key("a"), key("b", int64(1)), key("c")
	hello := v8.FromText("hello")
	w := d.frames(server, a, b, a) // of an actor that is not there; one key twice
	want := func(w *http.Response, text string) {
		t.Helper()
		same(t, frame(t, w), text)
	}
	want(w, "gone, gone, gone")
	d.commit(mutate(set, a, isV8, hello), mutate(set, c, isBytes, nil))
	want(w, fmt.Sprintf("01 %x, gone, 01 %x", hello, hello))
	d.commit(mutate(set, c, isBytes, []byte{1})) // is not watched
	d.commit(mutate(set, b, isU64, u64(7)), mutate(set, a, isBytes, []byte{1}))
	want(w, "03 01, 02 0700000000000000, 03 01")
	d.commit(mutate(remove, a, 0, nil), mutate(remove, a, 0, nil), mutate(set, b, isU64, u64(8)))
	want(w, "gone, 02 0800000000000000, gone")
	var nothing [4]byte
	if _, err := io.ReadFull(w.Body, nothing[:]); err != nil || nothing != [4]byte{} {
		t.Errorf("%x came while nothing changed, %v", nothing, err)
	}
	d.commit(mutate(remove, b, 0, nil))
	want(w, "gone, gone, gone")
	late := d.frames(server, b, c, a, a, a, a, a, a, a, a) // as many keys as it may have
	want(late, "gone, 03 01"+strings.Repeat(", gone", 8))
	must(t, d.Node.Destroy(context.Background(), host.Address{Type: "room", Key: []string{"a"}}))
	io.Copy(io.Discard, late.Body) // it ends, and the client comes back
	want(d.frames(server, b, c), "gone, gone")
	d.Front.Drain()
	if err := d.Front.Close(); err != nil || d.Front.Open() != 0 {
		t.Error(err, d.Front.Open())
	}
}

func TestWatchRefusesWhatItCannotWatch(t *testing.T) {
	d := open(t, serve.Options{Limits: serve.Limits{Streams: 1}})
	for _, c := range []struct {
		body []byte
		text string
		code int
	}{
		{nil, "the watch names no key", 400}, {[]byte{0x0A}, "is not a message", 400}, {watched([]byte("x")), "keys[0]: the key is no tuple", 400},
		{watched(key("a"), nil), "keys[1]: the key is missing", 400}, {bytes.Repeat(watched(key("a")), 11), "more than 10 keys", 400},
		{watched(key(strings.Repeat("x", 2050))), "keys[0]: ", 413}, {make([]byte, 33<<10), "longer than", 413},
	} {
		d.refused(d.send("watch", c.body), c.code, c.text)
	}
	server := d.listen()
	first := d.frames(server, key("a"))
	frame(t, first)
	d.refused(d.send("watch", watched(key("a"))), 503, "")
	first.Body.Close()
	d.base = &url.URL{Path: "/actors/closed/a/-/kv"} // the id is that of another database
	d.refused(d.send("watch", watched(key("a"))), 400, "database-id")
}
