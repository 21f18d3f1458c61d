package codebolt_test

import (
	"fmt"
	"strings"
	"testing"
)

// The defects of the original are counted as in the study of it.

func TestA2ARecordNeedsItsInstance(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	s.set(id, "n", "k", `1`)
	s.exactly(`{"deleted":true}`, "DELETE", "instances/"+id, "")
	s.want(404, "no instance", "POST", "kv", `{"instanceId":"`+id+`","namespace":"n","key":"k","value":1}`)
	s.want(404, "no record", "GET", "kv/"+id+"/n/k", "")
	// An instance, its name and its first record are one commit.
	methods := s.methods(func() {
		s.want(200, "", "POST", "kv", `{"instanceId":"two","namespace":"n","key":"k","value":1,"autoCreateInstance":true}`)
	})
	if methods != "kv.commit kv.list kv.set_scope kv.commit" {
		t.Error(methods)
	}
}

func TestA4CountsAreNotScanned(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	for i := range 50 {
		s.set(id, fmt.Sprintf("n%d", i%3), fmt.Sprint(i), `1`)
	}
	for path, want := range map[string]string{"instances/" + id: "kv.get kv.groups", "instances": "kv.list kv.get_many kv.groups"} {
		methods := s.methods(func() { s.want(200, `"recordCount":50,"namespaces":["n0","n1","n2"]`, "GET", path, "") })
		if methods != want {
			t.Errorf("%s calls %s", path, methods)
		}
	}
	methods := s.methods(func() {
		s.want(200, `"total":17`, "POST", "query", `{"instance":"`+id+`","namespace":"n0","limit":1,"total":true}`)
	})
	if methods != "kv.list kv.groups" {
		t.Error(methods)
	}
}

func TestA6AutoCreateInstanceTakesANameOrAnID(t *testing.T) {
	s := open(t)
	first := s.want(200, "", "POST", "kv", `{"instanceId":"state","namespace":"n","key":"a","value":1,"autoCreateInstance":true}`)
	id := uuids.FindString(first)
	for _, name := range []string{"state", id} {
		s.want(200, id, "POST", "kv", `{"instanceId":"`+name+`","namespace":"n","key":"b","value":1,"autoCreateInstance":true}`)
	}
	s.want(200, `"name":"state","recordCount":2`, "GET", "instances/"+id, "")
}

func TestA7AValueThatIsMissingIsRefused(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	s.want(400, "value is missing", "POST", "kv", `{"instanceId":"`+id+`","namespace":"n","key":"k"}`)
	for _, value := range []string{`{"$uuidv7":true}`, `12345678901234567890.0100`, `"<&>"`, `{"b":1,"a":2}`} { // as it was written
		s.set(id, "n", "k", value)
		s.exactly(`{"value":`+value+`}`, "GET", "kv/"+id+"/n/k", "")
	}
}

func TestA8NullIsNotAbsence(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	s.want(404, "no record", "GET", "kv/"+id+"/n/k", "")
	s.set(id, "n", "k", `null`)
	s.exactly(`{"value":null}`, "GET", "kv/"+id+"/n/k", "")
	s.exactly(`{"deleted":true}`, "DELETE", "kv/"+id+"/n/k", "")
	s.want(404, "no record", "GET", "kv/"+id+"/n/k", "")
}

func TestA9ANamespaceIsNotItsSiblings(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	for _, namespace := range []string{"n", "nn", "n/", "N"} {
		s.set(id, namespace, "k", `1`)
	}
	s.exactly(`{"deletedCount":1}`, "DELETE", "namespace/"+id+"/n", "")
	s.want(200, `"namespaces":["N","n/","nn"]`, "GET", "instances/"+id, "")
	s.exactly(`{"deletedCount":1}`, "DELETE", "namespace/"+id+"/n%2F", "")
}

func TestA13TheLimitIsRefusedAndAllIsReached(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	var b strings.Builder
	for i := range 501 {
		fmt.Fprintf(&b, `,{"op":"put","key":["cb",%q,"n","k%03d"],"value":%d}`, id, i, i)
	}
	s.call("kv.commit", `{"mutations":[`+b.String()[1:]+`]}`)
	s.want(400, "1 to 500", "POST", "query", `{"instance":"`+id+`","namespace":"n","limit":501}`)
	if page := s.query(id, ""); len(page.Records) != 100 || !page.HasMore {
		t.Errorf("%d records", len(page.Records))
	}
	page := s.query(id, `,"limit":500`)
	if page = s.query(id, `,"limit":500,"cursor":"`+*page.Cursor+`"`); page.keys() != "k500" || page.HasMore {
		t.Error(page)
	}
}

func TestA15KeysInPathsArePercentEncoded(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	for key, path := range map[string]string{"a/b": "a%2Fb", "50%": "50%25", "é ~-": "%C3%A9%20~-", "..": "%2E%2E", "-": "-", "a+b": "a+b"} {
		s.set(id, "n", key, `1`)
		s.exactly(`{"value":1}`, "GET", "kv/"+id+"/n/"+path, "")
		s.exactly(`{"deleted":true}`, "DELETE", "kv/"+id+"/n/"+path, "")
	}
}
