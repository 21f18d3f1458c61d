package token

import (
	"context"
	"errors"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

func TestRightsHaveNames(t *testing.T) {
	for r, text := range map[Rights]string{0: "", Read: "read", Read | Write: "read,write", Read | Write | Watch: "read,write,watch"} {
		if r.String() != text {
			t.Errorf("%d is %s", r, r)
		}
	}
	if ParseRight("write") != Write || ParseRight("Write") != 0 || ParseRight("") != 0 {
		t.Error("the names of rights")
	}
}

func TestAGrantHasAPrefixByItsParts(t *testing.T) {
	prefix, err := kv.Key{"a"}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	g, whole := &Grant{Rights: Read, Prefix: prefix}, &Grant{}
	for _, c := range []struct {
		key  kv.Key
		want bool
	}{
		{kv.Key{"a"}, true}, {kv.Key{"a", int64(1)}, true}, {kv.Key{"a\x00b"}, false}, {kv.Key{"ab"},
			false}, {kv.Key{[]byte("a")}, false}, {kv.Key{}, false},
		{kv.Key{"a", kv.UUIDv7}, true}, {kv.Key{kv.UUIDv7, "a"}, false}, {kv.Key{"b"}, false},
	} {
		if err := g.Key(c.key); (err == nil) != c.want || err != nil && host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("%v: %v", c.key, err)
		}
		if err := whole.Key(c.key); err != nil {
			t.Errorf("%v: %v", c.key, err)
		}
		if err := g.Below(c.key); len(c.key) == 1 && c.key[0] == "a" && err != nil {
			t.Errorf("%v: %v", c.key, err)
		}
	}
	start, end := g.Bounds()
	for _, c := range []struct {
		start, end string
		want       bool
	}{
		{string(start), string(end), true}, {string(start), "", false}, {"", string(end), false}, {string(start),
			string(end) + "\x00", false}, {string(start) + "x", string(start) + "y", true},
	} {
		if got := g.Range([]byte(c.start), []byte(c.end)); got != c.want || !whole.Range([]byte(c.start), []byte(c.end)) {
			t.Errorf("%q to %q: %t", c.start, c.end, got)
		}
	}
	if g.Allow(Read) != nil || host.CodeOf(g.Allow(Read|Write)) != host.PermissionDenied || g.Whole("this") == nil ||
		whole.Whole("this") != nil {
		t.Error("the rights of a grant")
	}
}

func TestAContextCarriesAGrant(t *testing.T) {
	g := &Grant{During: func(_ context.Context, f func(context.Context) error) error { return ErrInvalid }}
	if Of(t.Context()) != nil || Of(context.WithoutCancel(With(t.Context(), g))) != g {
		t.Error("the grant of a context")
	}
	called := false
	f := func(context.Context) error { called = true; return nil }
	if err := (*Grant)(nil).While(t.Context(), f); err != nil || !called {
		t.Error(err)
	}
	if err := g.While(t.Context(), f); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
