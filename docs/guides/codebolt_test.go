package guides_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

// cells opens a node with cells, and returns it with what sends a request to the cell demo.
func cells(t *testing.T) (*runtime.Runtime, func(verb, path, body string) string) {
	t.Helper()
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Actors: []actor.Definition{cell.Definition()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt, func(verb, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), verb, "http://"+rt.Addr()+"/actors/cell/demo/-/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 400 {
			t.Fatalf("%s %s: %s, %s, %v", verb, path, res.Status, text, err)
		}
		return strings.TrimSpace(string(text))
	}
}

func theme(ctx context.Context, rt *runtime.Runtime, id string) (kv.Entry, bool, error) {
	e, found, err := cell.Type.Ref(rt, "demo").KV().Get(ctx, kv.Key{"cb", id, "config", "theme"})
	return e, found, err
}

func TestCodebolt(t *testing.T) {
	rt, send := cells(t)
	send("POST", "kvstore/instances", `{"name":"my-agent-state","description":"Persisted state for my agent"}`)
	set := send("POST", "kvstore/kv", `{"instanceId":"my-agent-state","namespace":"config","key":"theme","value":"dark","autoCreateInstance":true}`)
	var answer struct {
		InstanceID string `json:"instanceId"`
	}
	if err := json.Unmarshal([]byte(set), &answer); err != nil {
		t.Fatal(err)
	}
	if list := send("GET", "kvstore/instances", ""); !strings.Contains(list, `"id":"`+answer.InstanceID+`"`) || !strings.Contains(list, `"recordCount":1`) {
		t.Error(list)
	}
	if e, found, err := theme(t.Context(), rt, answer.InstanceID); err != nil || !found || string(e.Value.Data) != `"dark"` {
		t.Error(e, err)
	}
}
