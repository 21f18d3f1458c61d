package gateway

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// paths are those of the document of a gateway for a type that has everything: by path and method.
func paths(t *testing.T, o setup) map[string]map[string]map[string]any {
	t.Helper()
	o.Behaviors = []*host.Behavior{{
		Type: "tenant", Methods: []host.Method{{Name: "add", Kind: host.Action}}, Events: []host.Event{{Name: "said"}},
		Queues: []host.Queue{{Name: "mail"}}, Streams: []host.Stream{{Name: "tokens"}},
	}}
	text, err := newGateway(t, o).describe()
	must(t, err)
	var d struct {
		Paths map[string]map[string]map[string]any `json:"paths"`
	}
	must(t, json.Unmarshal(text, &d))
	return d.Paths
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	routes := make(map[route]bool)
	visit := func(path, method string) {
		u, err := url.Parse(strings.NewReplacer("{key}", "a/b", "{name}", "n").Replace(path))
		must(t, err)
		target, fault := parseTarget(u)
		if fault != nil || target.route == nowhere {
			t.Errorf("the gateway does not know %s: %v", path, fault)
			return
		}
		errorIf(t, !slices.Contains(strings.Split(target.route.methods(), ", "), strings.ToUpper(method)),
			"%s does not take %s", path, method)
		routes[target.route] = true
	}
	for path, item := range paths(t, setup{Node: office{}, Databases: &fakeDatabases{}, Runs: fakeRuns{}}) {
		for method := range item {
			visit(path, method)
		}
	}
	for r := range everyRoute {
		errorIf(t, !routes[r], "route %d is not described", r)
	}
	errorIf(t, paths(t, setup{})["/actors/tenant/{key}/-/sqlite"] != nil,
		"the document of a node without databases has their path")
}
