package strata_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func (s *store) tok(input string) *store {
	s.t.Helper()
	var out struct{ Token string }
	if err := json.Unmarshal([]byte(s.call("token.create", input)), &out); err != nil {
		s.t.Fatal(err)
	}
	other := *s
	other.token = out.Token
	return &other
}

func TestOneActorDoesNotTakeAllTheRoom(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	w := s.tok(`{"rights":["write"]}`)
	many := `{"KvBatchPut":{"entries":[` + strings.Repeat(`{"key":"a","value":1},`, 999) + `{"key":"a","value":1}]}}` // counts as half a megabyte
	refused := ""
	for i := range 9 { // which would have more than all may
		tx := w.in(fmt.Sprint("x", i))
		tx.want(fmt.Sprintf(`{"Session":"x%d"}`, i), `{"TxnBegin":{}}`)
		for code := 200; code == 200; {
			code, refused = tx.do(many)
		}
	}
	if !strings.Contains(refused, "the transactions of this caller take") {
		t.Errorf("the actor has room for %s", refused)
	}
	b := s.of("room/b").in("y")
	b.want(`{"Session":"y"}`, `{"TxnBegin":{}}`)
	for range 3 {
		b.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":"`+strings.Repeat("v", 500_000)+`"}}`)
	}
}

func TestSessionsOfActorsAreApart(t *testing.T) {
	s := open(t)
	tx := s.of("room/a%00b").in("x")
	t.Log(tx.do(`{"TxnBegin":{}}`))
	t.Log(tx.do(`{"KvPut":{"key":"secret","value":1}}`))
	other := s.of("room/a/b").in("x")
	if code, got := other.do(`{"KvGet":{"key":"secret"}}`); strings.Contains(got, `"Int":1`) {
		t.Errorf("another actor's transaction: %d %s", code, got)
	}
	t.Log(other.do(`"TxnCommit"`))
	t.Log(s.of("room/a/b").do(`{"KvGet":{"key":"secret"}}`))
}

func TestACallerMayNotUseTheSessionOfAnother(t *testing.T) {
	s := openWith(t, serve.Options{Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Header.Get("User") == "reader" && r.Method == "kv.commit" {
			return host.Errorf(host.PermissionDenied, "readers do not write")
		}
		return nil
	}})
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	a := s.in("mine")
	a.want(`{"Session":"mine"}`, `{"TxnBegin":{}}`)
	a.do(`{"KvPut":{"key":"a","value":2}}`)
	t.Log(s.request("POST", "execute", `{"command":{"KvPut":{"key":"evil","value":666}}}`, "User: reader"))
	t.Log(s.request("POST", "execute", `{"session":"mine","command":{"KvGet":{"key":"a"}}}`, "User: reader"))
	t.Log(s.request("POST", "execute", `{"session":"mine","command":{"KvPut":{"key":"evil","value":666}}}`, "User: reader"))
	t.Log(a.do(`"TxnCommit"`))
	if code, got := s.do(`{"KvGet":{"key":"evil"}}`); got != `{"Maybe":null}` {
		t.Errorf("a client that may not commit has written: %d %s", code, got)
	}
}

// Callers are told apart by cookies too.
func TestACallerWithAnotherCookieHasOtherSessions(t *testing.T) {
	s := open(t)
	do := func(cookie, command string) string {
		_, got := s.request("POST", "execute", `{"session":"mine","command":`+command+`}`, "Cookie: "+cookie)
		return got
	}
	if got := do("user=a", `{"TxnBegin":{}}`); got != `{"Session":"mine"}` {
		t.Fatal(got)
	}
	for cookie, want := range map[string]string{"user=a": `{"Bool":true}`, "user=b": `{"Bool":false}`} {
		if got := do(cookie, `"TxnIsActive"`); got != want {
			t.Errorf("%s: %s, not %s", cookie, got, want)
		}
	}
}
