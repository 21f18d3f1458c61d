package kvconnect_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
	"github.com/cairn-run/cairn/runtime/store"
)

// via sends a request to another interface of the same actor.
func (d *database) via(verb, path, body string) string {
	d.t.Helper()
	r := httptest.NewRequest(verb, "/actors/room/a/-/"+path, strings.NewReader(body))
	w := httptest.NewRecorder()
	d.gateway.ServeHTTP(w, r)
	if w.Code >= 300 {
		d.t.Fatalf("%s %s: %d %s", verb, path, w.Code, w.Body)
	}
	return strings.TrimSpace(w.Body.String())
}

// The table of docs/http.md: each interface reads what was written through another.
func TestInterfacesShareOneStore(t *testing.T) {
	d := open(t, serve.Options{})
	d.via("POST", "call/kv.commit", `{"mutations":[{"op":"put","key":["cb","I"],"value":{"id":"I","name":"one"}},{"op":"put","key":["cb",true,"one","I"],"value":null}]}`)
	goStore := store.Of(actor.NewType[struct{}]("room").Ref(d.node, "a").KV())
	for _, c := range []struct {
		native string // the key, in JSON
		key    []byte // for clients of Deno KV
		keyval string // in JSON
		path   string // of KeyVal; "" if it has none
		record string // of Codebolt; "" if it is none
		strata string // the members of a command of Strata; "" if it has none
		group  string // of the Go package store; "" if it has none. The key is theme
	}{
		{`["config","theme"]`, key("config", "theme"), `["config","theme"]`, "config/theme", "", `"space":"config","key":"theme"`, "config"},
		{`["tenant-42","config","theme"]`, key("tenant-42", "config", "theme"), `["tenant-42","config","theme"]`, "tenant-42/config/theme", "", "", "tenant-42:config"},
		{`["users",7]`, key("users", 7), `["users",{"__type":"bigint","value":"7"}]`, "", "", "", ""},
		{`["users",7.0]`, key("users", 7.0), `["users",7]`, "users/7", "", "", ""},
		{`["users","7"]`, key("users", "7"), `["users","7"]`, "", "", `"space":"users","key":"7"`, ""},
		{`["a/b",true,{"$bytes":"AP8="}]`, key("a/b", true, []byte{0, 255}), `["a/b",true,{"$bytes":"AP8="}]`, "", "", "", ""},
		{`["cb","I","config","theme"]`, key("cb", "I", "config", "theme"), `["cb","I","config","theme"]`, "cb/I/config/theme", "I/config/theme", "", ""},
		{`["default","theme"]`, key("default", "theme"), `["default","theme"]`, "default/theme", "", `"key":"theme"`, "default"},
	} {
		writers := map[string]func(){
			"native": func() { d.via("POST", "call/kv.commit", `{"mutations":[{"op":"put","key":`+c.native+`,"value":"v"}]}`) },
			"Deno":   func() { d.commit(mutate(set, c.key, isV8, v8.FromText("v"))) },
			"KeyVal": func() {
				d.via("POST", "keyval/api/atomic", `{"mutations":[{"type":"set","key":`+c.keyval+`,"value":"v"}]}`)
			},
		}
		if c.path != "" {
			writers["KeyVal path"] = func() { d.via("PUT", "keyval/api/keys/"+c.path, `"v"`) }
		}
		if c.record != "" {
			writers["Codebolt"] = func() {
				p := strings.Split(c.record, "/")
				d.via("POST", "kvstore/kv", `{"instanceId":"`+p[0]+`","namespace":"`+p[1]+`","key":"`+p[2]+`","value":"v"}`)
			}
		}
		if c.strata != "" {
			writers["Strata"] = func() { d.via("POST", "strata/execute", `{"command":{"KvPut":{`+c.strata+`,"value":"v"}}}`) }
		}
		if c.group != "" {
			writers["Go"] = func() {
				if err := goStore.Set(c.group, "theme", "v"); err != nil {
					t.Error(err)
				}
			}
		}
		for name, write := range writers {
			d.via("POST", "call/kv.commit", `{"mutations":[{"op":"delete","key":`+c.native+`}]}`)
			if got := d.get(c.key); got != "" {
				t.Fatalf("%s: there is still %s", c.native, got)
			}
			write()
			if got := d.via("POST", "call/kv.get", `{"key":`+c.native+`}`); !strings.Contains(got, `"key":`+c.native) || !strings.Contains(got, `"value":"v"`) {
				t.Errorf("%s wrote %s, and native reads %s", name, c.native, got)
			}
			if got := d.get(c.key); !strings.HasPrefix(got, "01 ") || !strings.HasSuffix(got, "76") {
				t.Errorf("%s wrote %s, and Deno reads %s", name, c.native, got)
			}
			if got := d.via("POST", "keyval/api/keys/batch", `{"keys":[`+c.keyval+`]}`); !strings.HasPrefix(got, `[{"key":`+c.keyval+`,"value":"v","versionstamp":"0`) {
				t.Errorf("%s wrote %s, and KeyVal reads %s", name, c.native, got)
			}
			if c.path != "" {
				if got := d.via("GET", "keyval/api/keys/"+c.path, ""); !strings.Contains(got, `"value":"v"`) {
					t.Errorf("%s wrote %s, and KeyVal reads %s", name, c.native, got)
				}
			}
			if c.strata != "" {
				if got := d.via("POST", "strata/execute", `{"command":{"KvGet":{`+c.strata+`}}}`); got != `{"Maybe":{"String":"v"}}` {
					t.Errorf("%s wrote %s, and Strata reads %s", name, c.native, got)
				}
			}
			if c.group != "" {
				if got, err := goStore.Get(c.group, "theme"); got != "v" || err != nil {
					t.Errorf("%s wrote %s, and Go reads %q, %v", name, c.native, got, err)
				}
			}
			if c.record != "" {
				if got := d.via("GET", "kvstore/kv/"+c.record, ""); got != `{"value":"v"}` {
					t.Errorf("%s wrote %s, and Codebolt reads %s", name, c.native, got)
				}
				if got := d.via("GET", "kvstore/instances/I", ""); !strings.Contains(got, `"recordCount":1,"namespaces":["config"]`) {
					t.Errorf("%s wrote %s, and Codebolt counts %s", name, c.native, got)
				}
			}
		}
	}
}
