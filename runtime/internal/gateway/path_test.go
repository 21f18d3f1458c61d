package gateway

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPathsNameRoutesActorsAndMethods(t *testing.T) {
	for _, c := range []struct {
		path   string
		route  route
		typ    string
		key    []string
		method string
	}{
		{"/healthz", toHealth, "", nil, ""}, {"/actors", toList, "", nil, ""}, {"/actors/t/-/", toActor, "t", nil, ""},
		{"/actors/t/a/b/-/", toActor, "t", []string{"a", "b"}, ""}, {"/actors/t/-/call/add", toCall, "t", nil, "add"},
		{"/actors/t/a/-/call/a%2Fb", toCall, "t", []string{"a"}, "a/b"},
		{"/actors/t/a/-/queues/mail", toQueue, "t", []string{"a"}, "mail"},
		{"/actors/t/-/streams/a%2Fb", toStream, "t", nil, "a/b"}, {"/actors/t/a/-/kv/", toKV, "t", []string{"a"}, ""},
		{"/actors/t/a/-/kv/watch", toKV, "t", []string{"a"}, "watch"},
		{"/actors/t/a/-/kv/watch/", nowhere, "t", []string{"a"}, ""},
		{"/actors/t/a/-/kvstore/kv/i/n/~a%2Fb", toCodebolt, "t", []string{"a"}, ""},
		{"/actors/t/a/-/kvstore/ws/x", toCodebolt, "t", []string{"a"}, ""},
		{"/actors/t/a/-/keyval/api/keys", toKeyVal, "t", []string{"a"}, ""},
		{"/actors/t/a/-/strata/execute", toStrata, "t", []string{"a"}, ""},
		{"/kv/a/b%2Fc/~-", toKV, "cell", []string{"a", "b/c", "-"}, ""}, {"/kv", nowhere, "", nil, ""},
		{"/kvx/a", nowhere, "", nil, ""}, {"/actors/t/-/queues/a/b", nowhere, "t", nil, ""},
		{"/actors/t/a%2Fb/%25/-/", toActor, "t", []string{"a/b", "%"}, ""},
		{"/actors/t/%2D/-/", toActor, "t", []string{"-"}, ""}, {"/actors/t/~-/-/", toActor, "t", []string{"-"}, ""},
		{"/actors/t/%2E/%2E%2e/-/", toActor, "t", []string{".", ".."}, ""},
		{"/actors/t/~./~../-/", toActor, "t", []string{".", ".."}, ""},
		{"/actors/t/~/-/", toActor, "t", []string{""}, ""},
		{"/actors/t/~~/~~a/~~~/-/", toActor, "t", []string{"~", "~a", "~~"}, ""},
		{"/actors/t/a+b c/é/-/", toActor, "t", []string{"a+b c", "é"}, ""},
		{"/actors/t/%00/-/", toActor, "t", []string{"\x00"}, ""},
		{"/actors/t/a/-/nothing", nowhere, "t", []string{"a"}, ""},
		{"/actors/t/a/-/keys/", nowhere, "t", []string{"a"}, ""}, {"/actorsx", nowhere, "", nil, ""},
		{"", nowhere, "", nil, ""},
	} {
		u, err := url.Parse(c.path)
		must(t, err)
		got, fault := parseTarget(u)
		if fault != nil {
			t.Errorf("%s: %v", c.path, fault)
			continue
		}
		errorIf(t, got.route != c.route || got.Type != c.typ || !slices.Equal(got.Key, c.key) || got.name != c.method,
			"%s: got %+v", c.path, got)
	}
}

func TestBadPathsAreRefusedWithTheFaultNamed(t *testing.T) {
	for path, want := range map[string]string{
		"/actors/":            "names no actor type",
		"/actors/t/a":         `"/-/" after the key is missing`,
		"/actors//a/-/":       "the actor type is empty",
		"/actors/-/-/":        `the actor type is "-"`,
		"/actors/t/a//b/-/":   "part 2 of the key is empty",
		"/actors/t/a/../-/":   `part 2 of the key is ".."`,
		"/actors/t/~bob/-/":   `part 1 of the key begins with "~"`,
		"/actors/t/%FF/-/":    "part 1 of the key is not valid UTF-8",
		"/actors/%FF/-/":      "the actor type is not valid UTF-8",
		"/actors/t/-/call":    "names no action or query",
		"/actors/t/-/call/":   "names no action or query",
		"/actors/t/-/call/..": `the name of the action or query is ".."`,
	} {
		u, err := url.Parse(path)
		must(t, err)
		_, fault := parseTarget(u)
		errorIf(t, fault == nil || fault.Code != "invalid_argument" || !strings.Contains(fault.Message, want),
			"%s: got %v, want %q", path, fault, want)
	}
}

func TestAChangedPathWinsOverAStaleRawPath(t *testing.T) {
	got, fault := parseTarget(&url.URL{Path: "/actors/t/b/-/", RawPath: "/prefix/actors/t/%62/-/"})
	errorIf(t, fault != nil || !slices.Equal(got.Key, []string{"b"}), "%v %v", got, fault)
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/actors/t/a/-/", "/actors/t/~-/%2D/-/call/x", "/actors/t//-/", "/actors/%7E/-/-/", "/actors/t/a/-/connect",
		"/actors/t/a/-/queues/~-", "/actors/t/-/streams/%2e", "/actors/t/a/-/kv/%ff", "/kv/%ff/-"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		got, fault := parseTarget(u)
		if fault != nil {
			errorIf(t, !strings.Contains(fault.Message, " ") || fault.Message[0] == ' ', "message %q", fault.Message)
			return
		}
		for _, part := range append(got.Key, got.Type, got.name) {
			errorIf(t, !utf8.ValidString(part), "%q gives %q", path, part)
		}
	})
}
