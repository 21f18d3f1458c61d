package node

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
)

// in runs a test in a bubble with a hotel.
func in(t *testing.T, d puppetType, limits host.Limits, f func(t *testing.T, h *hotel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newHotel(t, d, limits)) })
}

func TestConnectHookSeesAllAndCredentialsAreNotStored(t *testing.T) {
	const params = `{"name":"ann","Access-Token":"s3cret","deep":[{"my_password":"s3cret","n":12345678901234567890}]}`
	var saw string
	keeps := false
	d := puppetType{connect: func(p *puppet, h host.Turn) error {
		saw, p.conn.State = string(p.given), []byte{0x01}
		if keeps { // what the hook sets is stored as it is
			p.conn.Params = p.given
		}
		if h.Caller() != p.conn.ID {
			return fmt.Errorf("the caller is %q", h.Caller())
		}
		return h.EmitTo(evSaid, []byte(`"welcome"`), p.conn.ID, nil)
	}}
	in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Params: []byte(params), Transport: "sse"})
		errorIf(t, saw != params, "the hook saw %s", saw)
		w := l.Welcome()
		errorIf(t, w.Resumed || w.Cursor != 0 || !strings.HasPrefix(w.Token, w.Connection+"."), "welcome %+v", w)
		c := h.records()[0]
		if c.ID != w.Connection || string(c.Params) != `{"deep":[{"n":12345678901234567890}],"name":"ann"}` ||
			!bytes.Equal(c.State, []byte{0x01}) || c.Transport != "sse" || c.Connected.IsZero() || !c.Lost.IsZero() {
			t.Errorf("stored %+v, parameters %s", c, c.Params)
		}
		page, err := h.Inspect(t.Context(), pAddr("a"), host.InspectQuery{ValueBytes: 1 << 20})
		h.ok(err)
		_, secret, _ := strings.Cut(w.Token, ".")
		for _, k := range page.Keys {
			if bytes.Contains(k.Value, []byte("s3cret")) || bytes.Contains(k.Value, []byte(secret)) {
				t.Errorf("%s holds a secret", k.Text)
			}
		}
		expect(t, l, "welcome")
		h.ok(l.Close(t.Context(), false))
		keeps = true
		h.connect(host.ConnectRequest{Params: []byte(params)})
		same(t, string(h.records()[0].Params), params, "stored")
	})
}

func TestConnectIsChecked(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		for _, c := range []struct {
			r    host.ConnectRequest
			want host.Code
		}{
			{host.ConnectRequest{Existing: true}, host.NotFound},
			{host.ConnectRequest{Params: []byte("{")}, host.InvalidArgument},
			{host.ConnectRequest{Params: make([]byte, host.MaxConnectionParams+1)}, host.TooLarge},
			{host.ConnectRequest{Transport: "pigeon"}, host.InvalidArgument},
		} {
			_, err := h.Connect(t.Context(), pAddr("a"), c.r)
			wantCode(t, err, c.want)
		}
		wantCode(t, h.do("a", func(_ *puppet, turn host.Turn) error { // a turn cannot hold a connection
			_, err := h.Connect(turn, pAddr("a"), host.ConnectRequest{})
			return err
		}), host.FailedPrecondition)
	})
}
