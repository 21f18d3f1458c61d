package client_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
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
			must(t, err)
		}
		must(t, errOf(operator.Call(t.Context(), &host.Request{Address: host.Address{Type: "room", Key: []string{"a"}}, Create: true, Codec: host.JSON})))
		all := rooms.Ref(operator, "a").KV()
		must(t, errOf(all.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"in", "x"}, kv.JSON([]byte("1")))}})))
		var made token.CreateOutput
		call(host.TokenCreate, `{"rights":["read","write","watch"],"prefix":["in"]}`, &made)
		c, err := client.New("http://node.example", client.Options{Token: made.Text, HTTPClient: &http.Client{Transport: s.transport}})
		must(t, err)
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
		must(t, errOf(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"in", "x"}, kv.JSON([]byte("2")))}})))
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

// A token with the right inspect opens what shows its actor, and nothing that changes it. What it follows ends with the token.
func TestATokenMayInspectItsActor(t *testing.T) {
	t.Parallel()
	onStage(t, client.Options{}, func(t *testing.T, s *stage, operator *client.Client) {
		a := host.Address{Type: "room", Key: []string{"a"}}
		for _, key := range []string{"a", "b"} {
			must(t, errOf(operator.Call(t.Context(), &host.Request{Address: host.Address{Type: "room", Key: []string{key}}, Create: true, Codec: host.JSON})))
		}
		all := rooms.Ref(operator, "a").KV()
		text, made, err := all.CreateToken(t.Context(), kv.TokenConfig{Rights: kv.Rights{Read: true, Inspect: true}, Label: "inspector"})
		if err != nil || !made.Inspect {
			t.Fatalf("%+v %v", made, err)
		}
		c, err := client.New("http://node.example", client.Options{Token: text, HTTPClient: &http.Client{Transport: s.transport}})
		must(t, err)
		defer c.Close()
		if st, err := c.Lookup(t.Context(), a); err != nil || st.Type != "room" {
			t.Errorf("the status: %+v %v", st, err)
		}
		if page, err := c.Inspect(t.Context(), a, host.InspectQuery{}); err != nil || len(page.Keys) == 0 {
			t.Errorf("the keys: %d %v", len(page.Keys), err)
		}
		if _, err := c.Lookup(t.Context(), host.Address{Type: "room", Key: []string{"b"}}); host.CodeOf(err) != host.Unauthenticated {
			t.Errorf("another actor: %v", err)
		}
		if err := c.Destroy(t.Context(), a); host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("destroy: %v", err)
		}
		if _, err := c.List(t.Context(), host.ListQuery{}); host.CodeOf(err) != host.Unauthenticated {
			t.Errorf("the list: %v", err)
		}
		for _, route := range []string{"PUT ", "GET connect", "GET queues/mail", "GET sqlite"} {
			method, path, _ := strings.Cut(route, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, "http://node.example/actors/room/a/-/"+path, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+text)
			w, err := s.transport.RoundTrip(r)
			must(t, err)
			w.Body.Close()
			if w.StatusCode != http.StatusForbidden {
				t.Errorf("%s: status %d", route, w.StatusCode)
			}
		}
		events, err := c.Subscribe(t.Context(), a, host.Subscription{})
		must(t, err)
		defer events.Close()
		ended := make(chan error, 1)
		go func() {
			_, err := events.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		if there, err := all.RevokeToken(t.Context(), made.ID); err != nil || !there {
			t.Fatal(there, err)
		}
		if err := <-ended; host.CodeOf(err) != host.Unauthenticated {
			t.Errorf("the events of a token that was revoked: %v", err)
		}
	})
}
