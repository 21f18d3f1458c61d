package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// newToken makes a token of actor a.
func (g *stage) newToken(in token.CreateInput) (out token.CreateOutput) {
	g.t.Helper()
	g.mustVerb("a", host.TokenCreate, in, &out)
	return out
}

// as calls a method of actor a with a token.
func (g *stage) as(text, name, input string) (string, error) {
	g.t.Helper()
	grant, err := g.CheckToken(context.Background(), pAddr("a"), text)
	if err != nil {
		return "", err
	}
	return g.granted(grant, name, input)
}

// checkToken is CheckToken of actor a.
func (g *stage) checkToken(text string) error {
	_, err := g.CheckToken(context.Background(), pAddr("a"), text)
	return err
}

// grant returns what a token of actor a allows.
func (g *stage) grant(text string) *token.Grant {
	g.t.Helper()
	grant, err := g.CheckToken(context.Background(), pAddr("a"), text)
	must(g.t, err)
	return grant
}

// revoke returns how many tokens it has revoked.
func (g *stage) revoke(id string) int64 {
	g.t.Helper()
	var out host.CountOutput
	g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: id}, &out)
	return out.Count
}

// tokenIDs returns the ids of the listed tokens.
func (g *stage) tokenIDs() (ids []string) {
	g.t.Helper()
	var list token.ListOutput
	g.mustVerb("a", host.TokenList, nil, &list)
	for _, one := range list.Tokens {
		ids = append(ids, one.ID)
	}
	return ids
}

// rights is the input for a token with some rights.
func rights(words string, prefix ...any) token.CreateInput {
	return token.CreateInput{Rights: strings.Split(words, ","), Prefix: prefix}
}

func (g *stage) granted(grant *token.Grant, name, input string) (string, error) {
	reply, err := g.Call(token.With(context.Background(), grant), jsonCall("a", name, input))
	return string(reply.Output), err
}

const readWrite = token.Read | token.Write

// tokenCalls are calls with a token for the prefix ["in"]: inputs that it allows with some rights,
// and inputs that it never allows.
var tokenCalls = map[string]struct {
	need            token.Rights
	inside, outside []string
}{
	host.KVGet: {token.Read, []string{`{"key":["in"]}`, `{"key":["in","x"]}`},
		[]string{`{"key":["out"]}`, `{"key":["i"]}`, `{"key":["in\u0000x"]}`, `{"key":[{"$bytes":"aW4="}]}`}},
	host.KVGetMany: {token.Read, []string{`{"keys":[]}`, `{"keys":[["in","x"]]}`}, []string{`{"keys":[["in"],["out"]]}`}},
	host.KVList: {token.Read,
		[]string{`{"prefix":["in"]}`, `{"prefix":["in","x"],"reverse":true}`,
			`{"start":["in"],"end":["in",{"$raw":"/w=="}]}`, `{"start":["in","a"],"end":["in","b"]}`},
		[]string{`{}`, `{"prefix":[]}`, `{"prefix":["out"]}`, `{"start":["in"]}`, `{"end":["in","x"]}`,
			`{"start":["in"],"end":["out"]}`, `{"start":["a"],"end":["in","x"]}`, `{"start":["in"],"end":["in",{"$raw":"/wA="}]}`}},
	host.KVListMany: {token.Read, []string{`{"lists":[]}`, `{"lists":[{"prefix":["in"]}]}`},
		[]string{`{"lists":[{"prefix":["in"]},{}]}`}},
	host.KVCount:   {token.Read, []string{`{"prefix":["in"]}`}, []string{`{}`, `{"prefix":["out"]}`}},
	host.KVSample:  {token.Read, []string{`{"prefix":["in"]}`}, []string{`{}`, `{"start":["in"],"end":["out"]}`}},
	host.KVHistory: {token.Read, []string{`{"key":["in","x"]}`}, []string{`{"key":["out"]}`}},
	host.KVScopes:  {token.Read, []string{`{"prefix":["in"]}`}, []string{`{}`, `{"prefix":["out"]}`}},
	host.KVGroups:  {token.Read, []string{`{"prefix":["in"]}`}, []string{`{"prefix":[]}`, `{"prefix":["out"]}`}},
	host.KVIndexes: {token.Read, []string{``}, nil},
	host.KVSearch: {token.Read, []string{`{"prefix":["in"],"query":"x"}`},
		[]string{`{"prefix":[],"query":"x"}`, `{"prefix":["out"],"query":"x"}`}},
	host.KVSetScope: {readWrite, []string{`{"prefix":["in","s"]}`},
		[]string{`{"prefix":["in","s"],"log":true}`, `{"prefix":["in","s"],"keep_versions":1}`,
			`{"prefix":["in"],"max_keys":9}`, `{"prefix":[]}`, `{"prefix":["out"]}`}},
	host.KVRemoveScope: {readWrite, []string{`{"prefix":["in","s"],"entries":true}`},
		[]string{`{"prefix":["in"]}`, `{"prefix":[],"entries":true}`, `{"prefix":["out"]}`}},
	host.KVSetIndex: {readWrite, nil,
		[]string{`{"prefix":["in","i"],"fields":[{"path":"a"}]}`, `{"prefix":[],"fields":[{"path":"a"}]}`,
			`{"prefix":["out"],"fields":[{"path":"a"}]}`}},
	host.KVRemoveIndex: {readWrite, nil, []string{`{"prefix":["in","i"]}`, `{"prefix":[]}`, `{"prefix":["out"]}`}},
	host.KVPin:         {readWrite, nil, []string{`{}`}},
	host.KVUnpin:       {readWrite, nil, []string{`{"version":1}`}},
	host.KVRender: {token.Read, []string{`{"template":"{{.x}}","prefix":["in"]}`},
		[]string{`{"template":"x"}`, `{"template":"{{.out}}","prefix":[]}`, `{"template":"x","prefix":["out"]}`}},
	host.KVPurge:        {readWrite, nil, []string{`{}`}},
	host.KVFork:         {readWrite, nil, []string{`{"branch":"x"}`}},
	host.KVBranches:     {token.Read, nil, []string{`{}`}},
	host.KVRemoveBranch: {readWrite, nil, []string{`{"branch":"b"}`}},
	host.KVDiff: {token.Read, []string{`{"from":{},"to":{"branch":"b"},"prefix":["in"]}`},
		[]string{`{"from":{},"to":{"branch":"b"}}`, `{"from":{},"to":{"branch":"b"},"prefix":["out"]}`}},
	host.KVMerge: {readWrite,
		[]string{`{"source":{"branch":"b"},"prefix":["in"]}`, `{"source":{"branch":"b"},"keys":[["in","x"]],"dry_run":true}`}, []string{
			`{"source":{"branch":"b"}}`, `{"source":{"branch":"b"},"keys":[["in"],["out"]]}`, `{"source":{"branch":"b"},"keys":[["in","x"]]}`, `{"source":{"branch":"b"},"prefix":["in","x"]}`, `{"source":{"branch":"b"},"start":["in"],"end":["in","x"]}`, `{"source":{"branch":"b"},"prefix":["out"]}`,
		}},
	host.KVWatch: {token.Read | token.Watch, []string{`{"keys":[{"key":["in","x"]}]}`},
		[]string{`{"keys":[{"key":["in"]},{"key":["out"]}]}`}},
	host.KVFeed: {token.Read | token.Watch, []string{`{"prefixes":[["in"]]}`},
		[]string{`{}`, `{"prefixes":[[]]}`, `{"prefixes":[["in"],["out"]]}`}},
	host.KVCommit: {token.Write,
		[]string{`{}`, `{"mutations":[{"op":"put","key":["in","x"],"value":1},{"op":"delete","key":["in","y"]},{"op":"delete_range","prefix":["in","z"]}]}`,
			`{"mutations":[{"op":"put","key":["in",{"$uuidv7":true}],"value":1}]}`}, []string{
			`{"mutations":[{"op":"put","key":["in"],"value":1},{"op":"put","key":["out"],"value":1}]}`, `{"mutations":[{"op":"delete","key":["out"]}]}`,
			`{"mutations":[{"op":"delete_range","prefix":["out"]}]}`, `{"mutations":[{"op":"delete_range","start":["in"]}]}`, `{"mutations":[{"op":"put","key":[{"$uuidv7":true},"in"],"value":1}]}`,
			`{"mutations":[{"op":"sum","key":["out"],"value":1}]}`, `{"mutations":[{"op":"touch","key":["out"],"ttl_ms":0}]}`, `{"checks":[{"key":["out"],"exists":true}]}`,
			`{"sends":[{"queue":"jobs","messages":[{"body":1}]}]}`,
		}},
}

// Commits that depend on stored data need the right read besides.
var readingCommits = []string{
	`{"checks":[{"key":["in","x"],"exists":false}]}`, `{"checks":[{"key":["in","x"],"value":1}]}`, `{"mutations":[{"op":"sum","key":["in","n"],"value":1}]}`,
	`{"mutations":[{"op":"append","key":["in","l"],"value":[1]}]}`, `{"mutations":[{"op":"delete_range","prefix":["in","z"],"where":{"value":1}}]}`,
	`{"mutations":[{"op":"touch","key":["in","x"],"ttl_ms":0}]}`,
}

// openTokens has a log and an index in the store of actor a, and entries within ["in"] and without.
func openTokens(t *testing.T) *stage {
	g := newStage(t, nil, &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}})
	g.kv("in.x=1", "in.y=2", "out=3", "in.n=1", "in.l=[]")
	g.logs(kv.ScopePolicy{})
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{"in"}, ScopePolicy: kv.ScopePolicy{CountGroups: true}}, nil)
	g.mustVerb("a", host.KVFork, kv.ForkInput{Branch: "b"}, nil)
	for _, prefix := range []string{"in", "out"} {
		g.mustVerb("a", host.KVSetIndex, kv.SetIndexInput{Prefix: kv.Key{prefix}, Fields: []kv.IndexField{{Path: "$value"}}}, nil)
	}
	return g
}

func TestATokenAllowsItsRightsWithinItsPrefix(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	for _, row := range method.All() {
		if _, listed := tokenCalls[row.Name]; strings.HasPrefix(row.Name, "kv.") != listed {
			t.Errorf("%s: listed here: %t", row.Name, listed)
		}
	}
	for _, words := range []string{"read", "write", "read,write", "read,watch", "read,write,watch"} {
		grant := g.grant(g.newToken(rights(words, "in")).Text)
		fatalIf(t, grant.Rights.String() != words, "%v", grant)
		try := func(name, input string, allowed bool) {
			_, err := g.granted(grant, name, input)
			errorIf(t, allowed && err != nil || !allowed && host.CodeOf(err) != host.PermissionDenied,
				"%s: %s %s: %v, allowed: %t", words, name, input, err, allowed)
		}
		for name, c := range tokenCalls {
			for _, input := range c.inside {
				try(name, input, c.need&^grant.Rights == 0)
			}
			for _, input := range c.outside {
				try(name, input, false)
			}
		}
		for _, input := range readingCommits {
			try(host.KVCommit, input, readWrite&^grant.Rights == 0)
		}
		for _, row := range method.All() {
			if !strings.HasPrefix(row.Name, "kv.") {
				try(row.Name, `{}`, false)
			}
		}
		for _, own := range []string{"do", "", "no.such"} {
			try(own, `{}`, false)
		}
	}
	// A token for the whole store.
	text := g.newToken(rights("read,write,watch")).Text
	for name, c := range tokenCalls {
		for _, input := range append(c.inside, c.outside...) {
			_, err := g.as(text, name, input)
			denied := strings.Contains(input, "sends") || name == host.KVSetScope && strings.Contains(input, `"prefix":[]`) ||
				name == host.KVRemoveScope && strings.Contains(input, `"prefix":[]`)
			errorIf(t, (host.CodeOf(err) == host.PermissionDenied) != denied, "the whole store: %s %s: %v", name, input, err)
		}
	}
	var out kv.GetOutput
	if g.mustVerb("a", host.KVGet, kv.GetInput{Key: kv.Key{"out"}}, &out); out.Entry != nil && string(out.Entry.Value) != "1" {
		t.Errorf("out is %s", out.Entry.Value)
	}
}

// Results from after the end of a token are not given out, even before the notice of the end.
func TestNewsFromAfterATokenAreNotGivenOut(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	made := g.newToken(rights("read"))
	err := g.grant(made.Text).While(t.Context(), func(context.Context) error {
		g.revoke(made.ID)
		return nil
	})
	errorIf(t, !errors.Is(err, token.ErrInvalid), "after the token was revoked: %v", err)
}

// A page of all, its digest and its cursor are not good for more because a token is shown with
// them.
func TestATokenRefusesDigestsAndCursorsOfOthers(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	text := g.newToken(rights("read,write", "in")).Text
	list := func(in kv.ListInput) (out kv.ListOutput) {
		in.Digest = true
		g.mustVerb("a", host.KVList, in, &out)
		return out
	}
	all := list(kv.ListInput{Limit: 4})
	in := list(kv.ListInput{Selection: kv.Selection{Prefix: kv.Key{"in"}}})
	beyond := list(kv.ListInput{Selection: kv.Selection{Start: kv.Key{"in"}}})
	for digest, code := range map[string]host.Code{all.Digest: host.PermissionDenied, beyond.Digest: host.PermissionDenied, in.Digest: ""} {
		if _, err := g.as(text, host.KVCommit, `{"checks":[{"digest":"`+digest+`"}]}`); host.CodeOf(err) != code {
			t.Errorf("a digest: %v, not %q", err, code)
		}
	}
	_, err := g.as(text, host.KVList, `{"prefix":["in"],"cursor":"`+all.Cursor+`"}`)
	wantCode(t, err, host.InvalidArgument)
	if out, err := g.as(text, host.KVIndexes, ``); err != nil || strings.Contains(out, "out") || !strings.Contains(out, `["in"]`) {
		t.Errorf("the indexes: %s %v", out, err)
	}
}

func TestTokensThatAreNotValid(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	g.must("b", add(1))
	made, other := g.newToken(rights("read")), g.newToken(rights("read"))
	for _, text := range []string{
		"", "cairn_", made.ID, made.Text + "a", made.Text[:len(made.Text)-1], strings.ToUpper(made.Text), made.Text[:22] + other.Text[22:],
		made.Text[:21] + "\n" + made.Text[22:],
	} {
		if err := g.checkToken(text); !errors.Is(err, token.ErrInvalid) || err.Error() != token.ErrInvalid.Error() {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, a := range []host.Address{pAddr("b"), pAddr("absent"), {Type: "no", Key: []string{"a"}}, {}} {
		if _, err := g.CheckToken(t.Context(), a, made.Text); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("at %v: %v", a, err)
		}
	}
	errorIf(t, g.Find(pAddr("absent")) != nil, "checking a token woke an actor")
}

// An idempotency key keeps a reply, and a reply of token.create has a secret.
func TestTheSecretOfATokenIsNowhereInTheStore(t *testing.T) {
	t.Parallel()
	g := &stage{t: t, dir: t.TempDir(), types: []*puppetType{{name: "p"}}}
	g.start()
	t.Cleanup(g.stop)
	g.must("a", add(1))
	var secrets []string
	for range 2 {
		r := jsonCall("a", host.TokenCreate, `{"rights":["read"],"label":"needle-7"}`)
		r.IdempotencyKey = "k"
		reply, err := g.Call(t.Context(), r)
		var out token.CreateOutput
		fatalIf(t, err != nil || json.Unmarshal(reply.Output, &out) != nil, "%v", err)
		g.grant(out.Text)
		secrets = append(secrets, out.Text[len(token.Prefix)+len(out.ID):])
	}
	errorIf(t, secrets[0] == secrets[1], "a repeated call has shown a token again")
	g.stop()
	found := false
	err := filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte("needle-7"))
		for _, s := range secrets {
			errorIf(t, bytes.Contains(data, []byte(s[:16])), "%s has a secret", path)
		}
		return err
	})
	errorIf(t, err != nil || !found, "the row was found: %t, %v", found, err)
}

// A watcher, a feed and a poll that wait end when their token ends, for any reason. An idle watch
// costs nothing until then.
func TestWhatIsFollowedEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"revoked", "expired", "destroyed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { followUntil(t, end) })
		})
	}
}

func followUntil(t *testing.T, end string) {
	g := openTokens(t)
	in := rights("read,watch", "in")
	if end == "expired" {
		in.TTLMS = 20_000
	}
	made := g.newToken(in)
	grant := g.grant(made.Text)
	ctx := token.With(t.Context(), grant)
	w, err := g.WatchKV(ctx, pAddr("a"), kv.Watching{Prefixes: []kv.Key{{"in"}}})
	must(t, err)
	defer w.Close()
	_, err = g.WatchKV(ctx, pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}})
	wantCode(t, err, host.PermissionDenied)
	time.AfterFunc(time.Second, func() { g.kv("in.x=7", "out=7") })
	if c, err := w.Next(ctx); err != nil || len(c.Changes) != 1 {
		t.Fatalf("%+v %v", c, err)
	}
	var at kv.FeedOutput
	out, err := g.granted(grant, host.KVFeed, `{"prefixes":[["in"]]}`)
	fatalIf(t, err != nil || json.Unmarshal([]byte(out), &at) != nil, "%v", err)
	g.kv("other=1")
	time.AfterFunc(18*time.Second, func() {
		switch end {
		case "revoked":
			g.revoke(made.ID)
		case "destroyed":
			check(t, g.Destroy(context.Background(), pAddr("a")))
		}
	})
	began := time.Now()
	var all sync.WaitGroup
	follow := func(what string, f func() error) {
		all.Go(func() {
			if err := f(); end == "destroyed" && host.CodeOf(err) != host.Destroyed ||
				end != "destroyed" && !errors.Is(err, token.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
			d := time.Since(began)
			errorIf(t, d < 17*time.Second || d > 21*time.Second, "%s has ended after %s", what, d)
		})
	}
	follow("the watch", func() error { _, err := w.Next(ctx); return err })
	follow("the feed", func() error {
		_, err := g.granted(grant, host.KVFeed,
			fmt.Sprintf(`{"prefixes":[["in"]],"after":%d,"life":%q,"wait_ms":60000}`, at.Next+1, at.Life))
		return err
	})
	follow("the poll", func() error {
		_, err := g.granted(grant, host.KVWatch, `{"keys":[{"key":["in","absent"]}],"wait_ms":60000}`)
		return err
	})
	all.Wait()
	if _, err := w.Next(ctx); err == nil {
		t.Error("the watch goes on")
	}
}

func TestTokensAreBoundedAndSafeToUseTogether(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	reads, inspects := rights("read"), rights("read,inspect")
	g.newToken(reads)
	g.must("a", func(_ *puppet, h host.Turn) error { // more of them, except for some
		rows := kernelTurn(h).Core.Rows
		start, end := keyspace.Token.Range()
		page, err := rows.List(engine.ListQuery{Start: start, End: end})
		for range token.MaxTokens - 8*4 - 1 {
			_, id, _ := token.New()
			err = errors.Join(err, rows.Put(keyspace.Token.Append(nil, id), page.Entries[0].Value, engine.PutOptions{}))
		}
		return err
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 3 {
				check(t, errOf(g.as(g.newToken(rights("read", "in")).Text, host.KVGet, `{"key":["in"]}`)))
			}
			g.revoke(g.newToken(reads).ID)
			g.newToken(reads)
		})
	}
	all.Wait()
	full := func(in token.CreateInput) {
		t.Helper()
		e := wantCode(t, g.verb("a", host.TokenCreate, in, nil), host.TooLarge)
		errorIf(t, e.Metadata["limit"] != "1000", "%v", e)
	}
	full(reads)
	// One of so many inspects. It counts like the others, has room for its successor, and goes on
	// while others are revoked.
	ids := g.tokenIDs()
	full(inspects)
	g.revoke(ids[0])
	first, made := g.newToken(inspects), g.newToken(inspects)
	if all := g.tokenIDs(); len(all) != token.MaxTokens || !slices.Contains(all, made.ID) || slices.Contains(all, first.ID) {
		t.Error("the list lacks the token that inspects, or has the one before")
	}
	full(reads)
	same(t, g.revoke(ids[1]), 1, "revoked")
	g.grant(made.Text)
	g.revoke(made.ID)
	if all := g.tokenIDs(); len(ids) != token.MaxTokens || !slices.Equal(all, ids[2:]) {
		t.Error("the list has not the tokens of before, in their order")
	}
	if err := g.checkToken(made.Text); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("a token that was revoked: %v", err)
	}
}

// TestATokenWithAPrefixMakesFewScopes: an actor has room for so many, and others need some.
func TestATokenWithAPrefixMakesFewScopes(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	g.must("a", add(1))
	below, beside := g.newToken(rights("read,write", "in")).Text, g.newToken(rights("read,write", "in2")).Text
	whole := g.newToken(rights("read,write")).Text
	set := func(text, prefix string) error {
		_, err := g.as(text, host.KVSetScope, `{"prefix":`+prefix+`}`)
		return err
	}
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	remove := func(prefix string) {
		t.Helper()
		_, err := g.as(below, host.KVRemoveScope, `{"prefix":`+prefix+`}`)
		must(err)
	}
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{"in"}}, nil) // it counts, too
	for i := range kv.MaxGranted - 1 {
		must(set(below, fmt.Sprintf(`["in",%d]`, i)))
	}
	e := wantCode(t, set(below, `["in","x"]`), host.TooLarge)
	errorIf(t, e.Metadata["field"] != "prefix" || e.Metadata["limit"] != "100", "%v, with %v", e, e.Metadata)
	must(set(below, `["in",7]`))
	must(set(beside, `["in2","x"]`))
	must(set(whole, `["in","y"]`))
	remove(`["in",1]`)
	wantCode(t, set(below, `["in","x"]`), host.TooLarge) // the one of the other token counts
	remove(`["in",2]`)
	remove(`["in",3]`)
	must(set(below, `["in","x"]`))
}

// A policy that is extended is not that of a map that the type no longer has.
func TestTheScopeOfAMapThatIsGoneIsNotExtended(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", maps: []host.Map{{Name: "plan", Keys: 5}}}
	g := newStage(t, nil, typ)
	g.kv("plan.x=1")
	typ.maps = nil
	extend := kv.SetScopeInput{Prefix: kv.Key{"plan"}, Extend: true, ScopePolicy: kv.ScopePolicy{MaxBytes: 900}}
	for range 2 {
		g.restart()
		var sc kv.Scope
		if g.mustVerb("a", host.KVSetScope, extend, &sc); sc.Declared || sc.MaxKeys != 0 || sc.MaxBytes != 900 {
			t.Errorf("%+v", sc)
		}
	}
}

// TestATokenThatInspectsMayReadAll calls each built-in method with an inspecting token: it may call
// the ones that read, and no others.
func TestATokenThatInspectsMayReadAll(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	made := g.newToken(rights("read,watch,inspect"))
	for _, row := range method.All() {
		_, err := g.as(made.Text, row.Name, `{}`)
		denied := host.CodeOf(err) == host.PermissionDenied
		reads := row.Kind == host.Query
		if !reads && strings.HasPrefix(row.Name, "kv.") {
			continue // the rights read and write decide on those
		}
		if reads == denied {
			t.Errorf("%s, which reads: %t: %v", row.Name, reads, err)
		}
	}
	for _, own := range []string{"do", "", "no.such"} {
		if _, err := g.as(made.Text, own, `{}`); host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("%q: %v", own, err)
		}
	}
	for field, in := range map[string]token.CreateInput{
		"rights": rights("inspect"),
		"prefix": rights("read,inspect", "in"),
	} {
		err := g.verb("a", host.TokenCreate, in, nil)
		wantField(t, err, field)
	}
}

// TestANewTokenThatInspectsEndsTheOneBefore has one at a time, in key 03. An older version kept
// them among the others, and several of them. A row there of another system is no token.
func TestANewTokenThatInspectsEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		inspects := rights("read,inspect")
		reader, first := g.newToken(rights("read")), g.newToken(inspects)
		err := g.grant(first.Text).During(t.Context(), func(ctx context.Context) error {
			g.newToken(inspects)
			<-ctx.Done() // the follower of the first one ends
			return ctx.Err()
		})
		wantCode(t, err, host.Unauthenticated)

		olds := []token.CreateOutput{g.newToken(rights("read")), g.newToken(rights("read"))}
		g.rewrite(func(rows *engine.WriteSet) (err error) {
			for _, old := range olds {
				key := keyspace.Token.Append(nil, old.ID)
				e, _, gerr := rows.Get(key)
				var row []any
				err = errors.Join(err, gerr, record.Decode(e.Value, &row))
				row[1] = token.Read | token.Inspect
				value, eerr := record.Encode(row)
				err = errors.Join(err, eerr, rows.Put(key, value, engine.PutOptions{}))
			}
			return err
		})
		g.grant(olds[0].Text)
		g.grant(olds[1].Text)
		same(t, g.revoke(olds[0].ID), 1, "are revoked")
		wantCode(t, g.checkToken(olds[0].Text), host.Unauthenticated)
		third := g.newToken(inspects)
		wantCode(t, g.checkToken(olds[1].Text), host.Unauthenticated)
		g.grant(third.Text)
		page, err := g.Inspect(t.Context(), pAddr("a"), host.InspectQuery{})
		errorIf(t, err != nil || !slices.ContainsFunc(page.Keys, func(k host.StoredKey) bool { return k.Text == "inspector-token" }),
			"%v %v", page, err)
		g.revoke(third.ID)

		g.rewrite(func(rows *engine.WriteSet) error {
			return rows.Put(keyspace.InspectorToken.Append(nil), []byte("0123456789abcdef"), engine.PutOptions{})
		})
		if ids, n := g.tokenIDs(), g.revoke(third.ID); len(ids) != 1 || ids[0] != reader.ID || n != 0 {
			t.Errorf("there are %v, and %d are revoked", ids, n)
		}
		g.grant(g.newToken(inspects).Text)
	})
}

// rewrite restarts the node, and changes rows of actor "a" in between.
func (g *stage) rewrite(change func(rows *engine.WriteSet) error) {
	g.t.Helper()
	g.stop()
	g.behind("a", func(space *engine.Space) error {
		rows := space.Writes()
		rows.Advance(1)
		if err := change(rows); err != nil {
			return err
		}
		_, err := space.Commit(func(error) {})
		return err
	})
	g.start()
}

// TestTooManyTokensThatAreNotValidAreRefused shows an actor very many invalid tokens. Valid ones
// are never refused.
func TestTooManyTokensThatAreNotValidAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil, &puppetType{name: "p"})
		g.must("a", add(1))
		g.must("b", add(1))
		made := g.newToken(rights("read"))
		inspects := g.newToken(rights("read,inspect")) // it has a key of its own
		short := g.newToken(token.CreateInput{Rights: []string{"read"}, TTLMS: 500})
		flood := func(a host.Address) (refused int) {
			t.Helper()
			for range 300 {
				text, _, _ := token.New()
				_, err := g.CheckToken(t.Context(), a, text)
				if errors.Is(err, token.ErrInvalid) {
					continue
				}
				if at := retryAt(t, err); time.Until(at) < time.Second/2 {
					t.Fatalf("it may come back in %s", time.Until(at))
				}
				refused++
			}
			return refused
		}
		refused := func(text string) {
			t.Helper()
			wantCode(t, g.checkToken(text), host.Overloaded)
		}
		for _, key := range []string{"absent", "a"} {
			same(t, flood(pAddr(key)), 200, "of 300 are refused of", key)
		}
		g.grant(made.Text)
		g.grant(inspects.Text)
		g.grant(short.Text)
		other, _, _ := token.New()
		wrong := made.Text[:len(token.Prefix)+token.IDChars] + other[len(token.Prefix)+token.IDChars:]
		refused(wrong) // it has another secret

		// The list of the tokens is older than this one, so it was not read again.
		later := g.newToken(rights("read"))
		refused(later.Text)
		time.Sleep(time.Second)
		flood(pAddr("a"))
		g.grant(later.Text)
		refused(short.Text) // it has expired

		// A token that was revoked is still in the list, so its row is read.
		g.revoke(later.ID)
		refused(later.Text)
		time.Sleep(time.Minute)
		if err := g.checkToken(wrong); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("after a minute: %v", err)
		}
	})
}
