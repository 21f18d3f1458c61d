package cell_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-run/cairn/runtime"
)

// The document of a node that hosts cells has all that a cell can do, with examples that are valid.
func TestNodesDescribeCells(t *testing.T) {
	w := httptest.NewRecorder()
	open(t, runtime.Options{}).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	must(t, c.AddResource("https://node/openapi.json", doc))
	compile := func(pointer string) *jsonschema.Schema {
		s, err := c.Compile("https://node/openapi.json#" + (&url.URL{Fragment: pointer}).EscapedFragment())
		must(t, err)
		return s
	}
	examples := 0
	for name, schema := range doc.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		all, _ := schema.(map[string]any)["examples"].([]any)
		for _, example := range all {
			check(t, compile("/components/schemas/"+name).Validate(example), "the example of", name)
			examples++
		}
	}
	errorIf(t, examples < 3, "cells have %d examples", examples)
	paths := doc.(map[string]any)["paths"].(map[string]any)
	for method, input := range map[string]string{
		"put":           `{"key":["a",1,true],"value":{"any":["thing"]},"ttl_ms":5}`,
		"atomic":        `{"checks":[{"key":["a"],"version":0}],"mutations":[{"op":"sum","key":["a"],"value":1}],"enqueues":[{"queue":"q","body":1}]}`,
		"queue.send":    `{"queue":"any-name","messages":[{"body":{"any":"thing"}}]}`,
		"queue.receive": `{"queue":"any-name"}`,
		"schedule.set":  `{"name":"any","every_ms":1000,"payload":{"event":true}}`,
		"stream.append": `{"stream":"any","items":[1,"x"]}`,
	} {
		const base = "/actors/cell/{key}/-/call/"
		if paths[base+method] == nil {
			t.Errorf("the document lacks %s", method)
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(input))
		must(t, err)
		pointer := "/paths/" + strings.ReplaceAll(base+method, "/", "~1") + "/post/requestBody/content/application~1json/schema"
		check(t, compile(pointer).Validate(value), method, input)
	}
	for _, what := range []string{"", "events", "connect", "keys", "queues/{name}", "streams/{name}"} {
		errorIf(t, paths["/actors/cell/{key}/-/"+what] == nil, "the document lacks %q", what)
	}
}
