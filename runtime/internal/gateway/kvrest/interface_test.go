package kvrest

import (
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestRoutesMatchPaths(t *testing.T) {
	in := Interface{Routes: []Route{
		{Verb: "GET", Path: "a", Answer: nothing}, {Verb: "GET", Path: "a/count", Answer: nothing}, {Verb: "GET",
			Path: "a/**", Stream: func(*Request) error { return nil }},
		{Verb: "PUT", Path: "a/**", Answer: nothing}, {Verb: "POST", Path: "b/*/c/*", Answer: nothing}, {Verb: "GET",
			Path: "poll", Answer: nothing, Effect: true},
	}}
	for request, want := range map[string]string{
		"GET a": "a", "HEAD a": "a", "PUT a": "-GET", "GET a/count": "a/count", "PUT a/count": "a/** count", "GET a/b/c": "a/** b c",
		"HEAD a/b": "-GET PUT", "DELETE a/b": "-GET PUT", "DELETE a/count": "-GET PUT", "GET c": "-", "GET a/": "a/** ", "POST b/1/c/2": "b/*/c/* 1 2",
		"POST b/1/c": "-", "POST b/1/c/2/d": "-", "POST b/1/d/2": "-", "GET ": "-", "HEAD poll": "-GET", "GET poll": "poll",
	} {
		verb, path, _ := strings.Cut(request, " ")
		rt, stars, verbs := in.find(verb, strings.Split(path, "/"))
		got := "-" + strings.Join(verbs, " ")
		if rt != nil {
			got = strings.Join(slices.Concat([]string{rt.Path}, stars), " ")
		}
		if got != want {
			t.Errorf("%s: %q, not %q", request, got, want)
		}
	}
	if rt, _, verbs := in.find("GET", nil); rt != nil || verbs != nil {
		t.Error(rt, verbs)
	}
}

func nothing(*Request) (any, error) { return nil, nil }

func TestErrorsAboutElementsLoseTheirPlace(t *testing.T) {
	e := host.Errorf(host.InvalidArgument, "mutations[0].value: is long").With("field", "mutations[0].value")
	got, is := Outside(e, "mutations").(*host.Error)
	if !is || got.Message != "value: is long" || got.Metadata["field"] != "value" || e.Metadata["field"] != "mutations[0].value" {
		t.Errorf("%+v", got)
	}
	for _, other := range []error{nil, host.Errorf(host.NotFound, "x"), e.With("field", "checks[0].key"), e.With("field", "mutations[0]")} {
		if got := Outside(other, "mutations"); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}
