package client_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
)

// withToken returns a client with a token of the room, its text, and what revokes it.
func (s *stage) withToken(operator *client.Client, config kv.TokenConfig) (c *client.Client, text string, revoke func()) {
	s.t.Helper()
	all := rooms.Ref(operator, "a").KV()
	text, made, err := all.CreateToken(s.t.Context(), config)
	must(s.t, err)
	errorIf(s.t, made.Inspect != config.Rights.Inspect, "%+v", made)
	c, err = client.New("http://node.example", client.Options{Token: text, HTTPClient: &http.Client{Transport: s.transport}})
	must(s.t, err)
	return c, text, func() {
		there, err := all.RevokeToken(s.t.Context(), made.ID)
		errorIf(s.t, err != nil || !there, "%v %v", there, err)
	}
}

// A client with a token of the actor does what that allows, and its watch ends for good with the token.
func TestAClientMayHaveATokenOfTheActor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, operator *client.Client) {
		s.call("none", "")
		commit := func(store kv.Store, key kv.Key, n string) error {
			put := kv.Put(key, kv.JSON([]byte(n)))
			return errOf(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{put}}))
		}
		must(t, commit(rooms.Ref(operator, "a").KV(), kv.Key{"in", "x"}, "1"))
		rights := kv.Rights{Read: true, Write: true, Watch: true}
		c, _, revoke := s.withToken(operator, kv.TokenConfig{Rights: rights, Prefix: kv.Key{"in"}})
		store := rooms.Ref(c, "a").KV()
		e, _, err := store.Get(t.Context(), kv.Key{"in", "x"})
		errorIf(t, err != nil || string(e.Value.Data) != "1", "%+v %v", e, err)
		wantCode(t, commit(store, kv.Key{"out"}, "1"), host.PermissionDenied)
		f := followStore(t, store, kv.WatchConfig{Prefixes: []kv.Key{{"in"}}})
		synctest.Wait()
		must(t, commit(store, kv.Key{"in", "x"}, "2"))
		synctest.Wait()
		revoke()
		time.Sleep(time.Minute)
		news := f.news()
		errorIf(t, news != "[in x]=2", "%q", news)
		wantCode(t, f.err, host.Unauthenticated)
	})
}

// A token with the right inspect opens what shows its actor, and nothing that changes it. What it follows ends with the token.
func TestATokenMayInspectItsActor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, operator *client.Client) {
		ctx := t.Context()
		s.call("none", "")
		rights := kv.Rights{Read: true, Inspect: true}
		c, text, revoke := s.withToken(operator, kv.TokenConfig{Rights: rights, Label: "inspector"})
		st, err := c.Lookup(ctx, room)
		errorIf(t, err != nil || st.Type != "room", "the status: %+v %v", st, err)
		page, err := c.Inspect(ctx, room, host.InspectQuery{})
		errorIf(t, err != nil || len(page.Keys) == 0, "the keys: %d %v", len(page.Keys), err)
		wantCode(t, errOf(c.Lookup(ctx, host.Address{Type: "room", Key: []string{"b"}})), host.Unauthenticated)
		wantCode(t, c.Destroy(ctx, room), host.PermissionDenied)
		wantCode(t, errOf(c.List(ctx, host.ListQuery{})), host.Unauthenticated)
		for _, route := range []string{"PUT ", "GET connect", "GET queues/mail", "GET sqlite"} {
			method, path, _ := strings.Cut(route, " ")
			r, err := http.NewRequestWithContext(ctx, method, "http://node.example/actors/room/a/-/"+path, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+text)
			w, err := s.transport.RoundTrip(r)
			must(t, err)
			w.Body.Close()
			errorIf(t, w.StatusCode != http.StatusForbidden, "%s: status %d", route, w.StatusCode)
		}
		events := s.open(c, host.Subscription{})
		ended := make(chan error, 1)
		go func() { ended <- errOf(events.Next(ctx)) }()
		synctest.Wait()
		revoke()
		wantCode(t, <-ended, host.Unauthenticated)
	})
}
