package client_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
)

// A client with a token of the actor does what that allows, and its watch ends for good with the token.
func TestAClientMayHaveATokenOfTheActor(t *testing.T) {
	t.Parallel()
	onStage(t, client.Options{}, func(t *testing.T, s *stage, operator *client.Client) {
		call := func(method, input string, out any) {
			t.Helper()
			reply, err := operator.Call(t.Context(), &host.Request{Address: host.Address{Type: "room", Key: []string{"a"}}, Method: method, Codec: host.JSON, Input: []byte(input)})
			if err == nil && out != nil {
				err = json.Unmarshal(reply.Output, out)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := operator.Call(t.Context(), &host.Request{Address: host.Address{Type: "room", Key: []string{"a"}}, Create: true, Codec: host.JSON}); err != nil {
			t.Fatal(err)
		}
		all := rooms.Ref(operator, "a").KV()
		if _, err := all.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"in", "x"}, kv.JSON([]byte("1")))}}); err != nil {
			t.Fatal(err)
		}
		var made token.CreateOutput
		call(host.TokenCreate, `{"rights":["read","write","watch"],"prefix":["in"]}`, &made)
		c, err := client.New("http://node.example", client.Options{Token: made.Text, HTTPClient: &http.Client{Transport: s.transport}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		store := rooms.Ref(c, "a").KV()
		if e, _, err := store.Get(t.Context(), kv.Key{"in", "x"}); err != nil || string(e.Value.Data) != "1" {
			t.Errorf("%+v %v", e, err)
		}
		if _, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"out"}, kv.JSON([]byte("1")))}}); host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("outside: %v", err)
		}
		f := followStore(t, store, kv.WatchConfig{Prefixes: []kv.Key{{"in"}}})
		synctest.Wait()
		if _, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"in", "x"}, kv.JSON([]byte("2")))}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		call(host.TokenRevoke, `{"id":"`+made.ID+`"}`, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if !slices.Equal(f.told, []string{"[in x]=2"}) || host.CodeOf(f.err) != host.Unauthenticated {
			t.Errorf("%q %v", f.told, f.err)
		}
	})
}
