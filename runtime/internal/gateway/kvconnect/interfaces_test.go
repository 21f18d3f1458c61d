package kvconnect_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
	"github.com/cairn-run/cairn/runtime/store"
)

// An access is a way to an entry: how it is written there, and how it is read.
type access struct {
	name  string
	write func() // nil if it only reads
	read  func() string
	want  string // what is read contains it
}

// The table of docs/http.md: each interface reads what was written through another.
func TestInterfacesShareOneStore(t *testing.T) {
	d := open(t, serve.Options{})
	via := func(verb, path, body string) string {
		t.Helper()
		w := d.exchange(verb, "/actors/room/a/-/"+path, body, nil)
		fatalIf(t, w.Code >= 300, "%s %s: %d %s", verb, path, w.Code, w.Body)
		return w.Body.String()
	}
	over := func(name, verb, path, body, readVerb, readPath, readBody, want string) access {
		return access{name, func() { via(verb, path, body) }, func() string { return via(readVerb, readPath, readBody) }, want}
	}
	via("POST", "call/kv.commit", `{"mutations":[{"op":"put","key":["cb","I"],"value":{"id":"I","name":"one"}},{"op":"put","key":["cb",true,"one","I"],"value":null}]}`)
	goStore := store.Of(actor.NewType[struct{}]("room").Ref(d.Node, "a").KV())
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
		ways := []access{
			over("native", "POST", "call/kv.commit", `{"mutations":[{"op":"put","key":`+c.native+`,"value":"v"}]}`,
				"POST", "call/kv.get", `{"key":`+c.native+`}`, `"key":`+c.native+`,"value":"v"`),
			{"Deno", func() { d.commit(mutate(set, c.key, isV8, v8.FromText("v"))) },
				func() string { return d.get(c.key) }, "01 " + hex.EncodeToString(v8.FromText("v"))},
			over("KeyVal", "POST", "keyval/api/atomic", `{"mutations":[{"type":"set","key":`+c.keyval+`,"value":"v"}]}`,
				"POST", "keyval/api/keys/batch", `{"keys":[`+c.keyval+`]}`, `[{"key":`+c.keyval+`,"value":"v","versionstamp":"0`),
		}
		if c.path != "" {
			ways = append(ways, over("KeyVal path", "PUT", "keyval/api/keys/"+c.path, `"v"`, "GET", "keyval/api/keys/"+c.path, "", `"value":"v"`))
		}
		if p := strings.Split(c.record, "/"); c.record != "" {
			ways = append(ways, over("Codebolt", "POST", "kvstore/kv", `{"instanceId":"`+p[0]+`","namespace":"`+p[1]+`","key":"`+p[2]+`","value":"v"}`,
				"GET", "kvstore/kv/"+c.record, "", `{"value":"v"}`),
				access{"Codebolt's count", nil, func() string { return via("GET", "kvstore/instances/I", "") }, `"recordCount":1,"namespaces":["config"]`})
		}
		if c.strata != "" {
			ways = append(ways, over("Strata", "POST", "strata/execute", `{"command":{"KvPut":{`+c.strata+`,"value":"v"}}}`,
				"POST", "strata/execute", `{"command":{"KvGet":{`+c.strata+`}}}`, `{"Maybe":{"String":"v"}}`))
		}
		if c.group != "" {
			ways = append(ways, access{"Go", func() { must(t, goStore.Set(c.group, "theme", "v")) }, func() string {
				got, err := goStore.Get(c.group, "theme")
				must(t, err)
				return got
			}, "v"})
		}
		for _, from := range ways {
			if from.write == nil {
				continue
			}
			via("POST", "call/kv.commit", `{"mutations":[{"op":"delete","key":`+c.native+`}]}`)
			same(t, d.get(c.key), "", c.native)
			from.write()
			for _, to := range ways {
				if got := to.read(); !strings.Contains(got, to.want) {
					t.Errorf("%s wrote %s, and %s reads %s", from.name, c.native, to.name, got)
				}
			}
		}
	}
}
