package cell

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// jobSchema is the compiled schema of Job.
func jobSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Job{}.JSONSchema()))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("job.json", doc))
	s, err := c.Compile("job.json")
	must(t, err)
	return s
}

func TestJobsAreCheckedWhenTheyAreSet(t *testing.T) {
	schema := jobSchema(t)
	for _, test := range []struct {
		text, fault string // "" means none
	}{
		{`{"queue":"jobs","body":{"a":1}}`, ``},
		{`{"queue":"jobs","body":null}`, ``},
		{`{"queue":"jobs","body":1,"event":true}`, ``},
		{`{"event":true}`, ``},
		{`{"event":true,"body":[1]}`, ``},
		{`{"queue":"jobs","body":1,"delay_ms":5,"ttl_ms":6,"priority":-1000,"dedup_id":"x","backoff_ms":[],"keys_if_undelivered":[["a",1]]}`, ``},
		{`{"queue":"jobs","body":1,"backoff_ms":null}`, ``},
		{`{}`, `neither which queue`},
		{`{"event":false}`, `neither which queue`},
		{`{"body":1}`, `neither which queue`},
		{`{"queue":"jobs"}`, `the body is missing`},
		{`{"queue":"jobs","event":true}`, `the body is missing`},
		{`{"queue":"a.b","body":1}`, `the queue is "a.b"`},
		{`{"queue":"jobs","body":1,"delay_ms":-1}`, `delay_ms is -1`},
		{`{"queue":"jobs","body":1,"delay_ms":2592000001}`, `delay_ms is`},
		{`{"queue":"jobs","body":1,"priority":1001}`, `priority is 1001`},
		{`{"queue":"jobs","body":1,"backoff_ms":[-1]}`, `backoff_ms`},
		{`{"queue":"jobs","body":1,"keys_if_undelivered":[[]]}`, `the key is missing`},
		{`{"queue":"jobs","body":1,"keys_if_undelivered":[[null]]}`, `key part 1`},
		{`{"event":true,"queues":"x"}`, `an object with queue and body`},
		{`{"event":1}`, `an object with queue and body`},
		{`[]`, `an object with queue and body`},
		{`null`, `neither which queue`},
	} {
		var j Job
		err := json.Unmarshal([]byte(test.text), &j)
		errorIf(t, (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault),
			"%s: %v, want %q", test.text, err, test.fault)
		doc, unreadable := jsonschema.UnmarshalJSON(strings.NewReader(test.text))
		fatalIf(t, unreadable != nil, "%v", unreadable)
		if invalid := schema.Validate(doc); (invalid == nil) != (err == nil) {
			t.Errorf("%s: the schema says %v and the decoder %v", test.text, invalid, err)
		}
		if err != nil {
			continue
		}
		packed, err := cbor.Marshal(j)
		must(t, err)
		var again Job
		if err := cbor.Unmarshal(packed, &again); err != nil || !reflect.DeepEqual(asJSON(t, again), asJSON(t, j)) {
			t.Errorf("%s comes back from CBOR as %s, %v", test.text, asJSON(t, again), err)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

func FuzzJobSchemaAllowsWhatDecodes(f *testing.F) {
	for _, s := range []string{`{"queue":"q","body":1}`, `{"event":true}`, `{"event":true,"delay_ms":1}`,
		`{"queue":"","event":true}`, `{"backoff_ms":[],"event":true}`} {
		f.Add(s)
	}
	schema := jobSchema(f)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, `.eE`) && strings.ContainsAny(text, "0123456789") {
			return // a whole number with a fraction is an integer to a schema
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil || schema.Validate(doc) != nil {
			return
		}
		var j Job
		if err := json.Unmarshal([]byte(text), &j); err != nil && len(text) < 200 {
			t.Errorf("the schema allows %s, and decoding says: %v", text, err)
		}
	})
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
