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

func (g *stage) granted(grant *token.Grant, name, input string) (string, error) {
	reply, err := g.Call(token.With(context.Background(), grant), &host.Request{Address: pAddr("a"), Method: name, Codec: host.JSON, Input: []byte(input)})
	return string(reply.Output), err
}

const readWrite = token.Read | token.Write

// tokenCalls are calls with a token for the prefix ["in"]: what it allows with some rights, and what it never allows.
var tokenCalls = map[string]struct {
	need            token.Rights
	inside, outside []string
}{
	host.KVGet:     {token.Read, []string{`{"key":["in"]}`, `{"key":["in","x"]}`}, []string{`{"key":["out"]}`, `{"key":["i"]}`, `{"key":["in\u0000x"]}`, `{"key":[{"$bytes":"aW4="}]}`}},
	host.KVGetMany: {token.Read, []string{`{"keys":[]}`, `{"keys":[["in","x"]]}`}, []string{`{"keys":[["in"],["out"]]}`}},
	host.KVList: {token.Read, []string{`{"prefix":["in"]}`, `{"prefix":["in","x"],"reverse":true}`, `{"start":["in"],"end":["in",{"$raw":"/w=="}]}`, `{"start":["in","a"],"end":["in","b"]}`},
		[]string{`{}`, `{"prefix":[]}`, `{"prefix":["out"]}`, `{"start":["in"]}`, `{"end":["in","x"]}`, `{"start":["in"],"end":["out"]}`, `{"start":["a"],"end":["in","x"]}`, `{"start":["in"],"end":["in",{"$raw":"/wA="}]}`}},
	host.KVListMany:     {token.Read, []string{`{"lists":[]}`, `{"lists":[{"prefix":["in"]}]}`}, []string{`{"lists":[{"prefix":["in"]},{}]}`}},
	host.KVCount:        {token.Read, []string{`{"prefix":["in"]}`}, []string{`{}`, `{"prefix":["out"]}`}},
	host.KVSample:       {token.Read, []string{`{"prefix":["in"]}`}, []string{`{}`, `{"start":["in"],"end":["out"]}`}},
	host.KVHistory:      {token.Read, []string{`{"key":["in","x"]}`}, []string{`{"key":["out"]}`}},
	host.KVScopes:       {token.Read, []string{`{"prefix":["in"]}`}, []string{`{}`, `{"prefix":["out"]}`}},
	host.KVGroups:       {token.Read, []string{`{"prefix":["in"]}`}, []string{`{"prefix":[]}`, `{"prefix":["out"]}`}},
	host.KVIndexes:      {token.Read, []string{``}, nil},
	host.KVSearch:       {token.Read, []string{`{"prefix":["in"],"query":"x"}`}, []string{`{"prefix":[],"query":"x"}`, `{"prefix":["out"],"query":"x"}`}},
	host.KVSetScope:     {readWrite, []string{`{"prefix":["in","s"]}`}, []string{`{"prefix":["in","s"],"log":true}`, `{"prefix":["in","s"],"keep_versions":1}`, `{"prefix":["in"],"max_keys":9}`, `{"prefix":[]}`, `{"prefix":["out"]}`}},
	host.KVRemoveScope:  {readWrite, []string{`{"prefix":["in","s"],"entries":true}`}, []string{`{"prefix":["in"]}`, `{"prefix":[],"entries":true}`, `{"prefix":["out"]}`}},
	host.KVSetIndex:     {readWrite, nil, []string{`{"prefix":["in","i"],"fields":[{"path":"a"}]}`, `{"prefix":[],"fields":[{"path":"a"}]}`, `{"prefix":["out"],"fields":[{"path":"a"}]}`}},
	host.KVRemoveIndex:  {readWrite, nil, []string{`{"prefix":["in","i"]}`, `{"prefix":[]}`, `{"prefix":["out"]}`}},
	host.KVPin:          {readWrite, nil, []string{`{}`}},
	host.KVUnpin:        {readWrite, nil, []string{`{"version":1}`}},
	host.KVRender:       {token.Read, []string{`{"template":"{{.x}}","prefix":["in"]}`}, []string{`{"template":"x"}`, `{"template":"{{.out}}","prefix":[]}`, `{"template":"x","prefix":["out"]}`}},
	host.KVPurge:        {readWrite, nil, []string{`{}`}},
	host.KVFork:         {readWrite, nil, []string{`{"branch":"x"}`}},
	host.KVBranches:     {token.Read, nil, []string{`{}`}},
	host.KVRemoveBranch: {readWrite, nil, []string{`{"branch":"b"}`}},
	host.KVDiff:         {token.Read, []string{`{"from":{},"to":{"branch":"b"},"prefix":["in"]}`}, []string{`{"from":{},"to":{"branch":"b"}}`, `{"from":{},"to":{"branch":"b"},"prefix":["out"]}`}},
	host.KVMerge: {readWrite, []string{`{"source":{"branch":"b"},"prefix":["in"]}`, `{"source":{"branch":"b"},"keys":[["in","x"]],"dry_run":true}`}, []string{
		`{"source":{"branch":"b"}}`, `{"source":{"branch":"b"},"keys":[["in"],["out"]]}`, `{"source":{"branch":"b"},"keys":[["in","x"]]}`, `{"source":{"branch":"b"},"prefix":["in","x"]}`, `{"source":{"branch":"b"},"start":["in"],"end":["in","x"]}`, `{"source":{"branch":"b"},"prefix":["out"]}`,
	}},
	host.KVWatch: {token.Read | token.Watch, []string{`{"keys":[{"key":["in","x"]}]}`}, []string{`{"keys":[{"key":["in"]},{"key":["out"]}]}`}},
	host.KVFeed:  {token.Read | token.Watch, []string{`{"prefixes":[["in"]]}`}, []string{`{}`, `{"prefixes":[[]]}`, `{"prefixes":[["in"],["out"]]}`}},
	host.KVCommit: {token.Write, []string{`{}`, `{"mutations":[{"op":"put","key":["in","x"],"value":1},{"op":"delete","key":["in","y"]},{"op":"delete_range","prefix":["in","z"]}]}`,
		`{"mutations":[{"op":"put","key":["in",{"$uuidv7":true}],"value":1}]}`}, []string{
		`{"mutations":[{"op":"put","key":["in"],"value":1},{"op":"put","key":["out"],"value":1}]}`, `{"mutations":[{"op":"delete","key":["out"]}]}`,
		`{"mutations":[{"op":"delete_range","prefix":["out"]}]}`, `{"mutations":[{"op":"delete_range","start":["in"]}]}`, `{"mutations":[{"op":"put","key":[{"$uuidv7":true},"in"],"value":1}]}`,
		`{"mutations":[{"op":"sum","key":["out"],"value":1}]}`, `{"mutations":[{"op":"touch","key":["out"],"ttl_ms":0}]}`, `{"checks":[{"key":["out"],"exists":true}]}`,
		`{"sends":[{"queue":"jobs","messages":[{"body":1}]}]}`,
	}},
}

// What depends on what is there needs the right read besides.
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
		in := token.CreateInput{Rights: strings.Split(words, ","), Prefix: kv.Key{"in"}}
		text := g.newToken(in).Text
		grant, err := g.CheckToken(t.Context(), pAddr("a"), text)
		if err != nil || grant.Rights.String() != words {
			t.Fatal(grant, err)
		}
		try := func(name, input string, allowed bool) {
			_, err := g.granted(grant, name, input)
			if allowed && err != nil || !allowed && host.CodeOf(err) != host.PermissionDenied {
				t.Errorf("%s: %s %s: %v, allowed: %t", words, name, input, err, allowed)
			}
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
	text := g.newToken(token.CreateInput{Rights: []string{"read", "write", "watch"}}).Text
	for name, c := range tokenCalls {
		for _, input := range append(c.inside, c.outside...) {
			_, err := g.as(text, name, input)
			denied := strings.Contains(input, "sends") || name == host.KVSetScope && strings.Contains(input, `"prefix":[]`) ||
				name == host.KVRemoveScope && strings.Contains(input, `"prefix":[]`)
			if (host.CodeOf(err) == host.PermissionDenied) != denied {
				t.Errorf("the whole store: %s %s: %v", name, input, err)
			}
		}
	}
	var out kv.GetOutput
	if g.mustVerb("a", host.KVGet, kv.GetInput{Key: kv.Key{"out"}}, &out); out.Entry != nil && string(out.Entry.Value) != "1" {
		t.Errorf("out is %s", out.Entry.Value)
	}
}

// A page of all, the digest of one and a cursor of it are not good for more because a token is shown with them.
func TestATokenRefusesDigestsAndCursorsOfOthers(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	text := g.newToken(token.CreateInput{Rights: []string{"read", "write"}, Prefix: kv.Key{"in"}}).Text
	var all, in, beyond kv.ListOutput
	g.mustVerb("a", host.KVList, kv.ListInput{Digest: true, Limit: 4}, &all)
	g.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Prefix: kv.Key{"in"}}, Digest: true}, &in)
	g.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Start: kv.Key{"in"}}, Digest: true}, &beyond)
	for digest, code := range map[string]host.Code{all.Digest: host.PermissionDenied, beyond.Digest: host.PermissionDenied, in.Digest: ""} {
		if _, err := g.as(text, host.KVCommit, `{"checks":[{"digest":"`+digest+`"}]}`); host.CodeOf(err) != code {
			t.Errorf("a digest: %v, not %q", err, code)
		}
	}
	if _, err := g.as(text, host.KVList, `{"prefix":["in"],"cursor":"`+all.Cursor+`"}`); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("the cursor of another listing: %v", err)
	}
	if out, err := g.as(text, host.KVIndexes, ``); err != nil || strings.Contains(out, "out") || !strings.Contains(out, `["in"]`) {
		t.Errorf("the indexes: %s %v", out, err)
	}
	_, err := g.as(text, host.KVCommit, `{"mutations":[{"op":"put","key":["in"],"value":1},{"op":"put","key":["out"],"value":1}]}`)
	if e := wantCode(t, err, host.PermissionDenied); e.Metadata["field"] != "mutations[1].key" || !strings.Contains(e.Message, "mutations[1].key: ") {
		t.Errorf("%v names %q", e, e.Metadata["field"])
	}
}

func TestATokenWithoutReadIsToldNothing(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	text := g.newToken(token.CreateInput{Rights: []string{"write"}, Prefix: kv.Key{"in"}}).Text
	for _, m := range []string{`{"op":"delete","key":["in","x"]}`, `{"op":"delete","key":["in","x"]}`, `{"op":"delete_range","prefix":["in"]}`} {
		if out, err := g.as(text, host.KVCommit, `{"mutations":[`+m+`]}`); err != nil || strings.Contains(out, "deleted") || !strings.Contains(out, `"results":[{}]`) {
			t.Errorf("%s: %s %v", m, out, err)
		}
	}
	// Nor is a reader told of a range that goes beyond its prefix.
	watcher := g.newToken(token.CreateInput{Rights: []string{"read", "watch"}, Prefix: kv.Key{"in"}}).Text
	g.kv("in.x=1")
	g.mustVerb("a", host.KVCommit, kv.CommitInput{Mutations: []kv.Mutation{{Op: "delete_range", Selection: kv.Selection{Start: kv.Key{"hidden"}, End: kv.Key{"out", "of"}}}}}, nil)
	out, err := g.as(watcher, host.KVFeed, `{"prefixes":[["in"]],"after":0}`)
	if err != nil || strings.Contains(out, "hidden") || strings.Contains(out, "out") || !strings.Contains(out, `"range":{"prefix":["in"]}`) {
		t.Errorf("the feed: %s %v", out, err)
	}
}

// A scope around the token's keys has keys of others, whose size is not the token's to know. A log and a history that the owner has
// set within stay as they are.
func TestATokenIsNotToldOfScopesAroundItsKeys(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	g.kv("in.x=1", "out=1")
	both := g.newToken(token.CreateInput{Rights: []string{"read", "write"}, Prefix: kv.Key{"in"}}).Text
	writer := g.newToken(token.CreateInput{Rights: []string{"write"}}).Text
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{}, ScopePolicy: kv.ScopePolicy{MaxBytes: 100, KeepVersions: 9}}, nil)
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{"in", "few"}, ScopePolicy: kv.ScopePolicy{MaxKeys: 1, KeepVersions: 5}}, nil)
	for _, text := range []string{both, writer} {
		_, err := g.as(text, host.KVCommit, `{"mutations":[{"op":"put","key":["in","x"],"value":"`+strings.Repeat("x", 200)+`"}]}`)
		e := wantCode(t, err, host.QuotaExceeded)
		if told := fmt.Sprint(e, e.Metadata); e.Metadata["reason"] != "scope_full" || strings.ContainsAny(strings.ReplaceAll(told, "mutations[0]", ""), "0123456789") || e.Metadata["scope"] != "" {
			t.Errorf("told %s", told)
		}
	}
	if _, err := g.as(both, host.KVCommit, `{"mutations":[{"op":"put","key":["in","few",1],"value":1}]}`); err != nil {
		t.Error(err)
	}
	_, err := g.as(both, host.KVCommit, `{"mutations":[{"op":"put","key":["in","few",2],"value":1}]}`)
	if e := wantCode(t, err, host.QuotaExceeded); e.Metadata["limit"] != "1" {
		t.Errorf("of its own scope: %v", e)
	}
	for _, policy := range []string{``, `,"keep_versions":1`, `,"keep_versions":5,"log":true`} {
		_, err := g.as(both, host.KVSetScope, `{"prefix":["in","few"]`+policy+`}`)
		wantCode(t, err, host.PermissionDenied)
	}
	_, err = g.as(both, host.KVRemoveScope, `{"prefix":["in","few"]}`)
	wantCode(t, err, host.PermissionDenied)
	if _, err := g.as(both, host.KVSetScope, `{"prefix":["in","few"],"keep_versions":5,"max_keys":2}`); err != nil {
		t.Error(err)
	}
	// Nor of how full the actor is.
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{}, ScopePolicy: kv.ScopePolicy{KeepVersions: 9}}, nil)
	most := int64(10_000)
	g.mustVerb("a", host.LimitsSet, host.ActorLimits{StorageBytes: &most}, nil)
	whole := g.newToken(token.CreateInput{Rights: []string{"read", "write"}}).Text
	for text, told := range map[string]bool{both: false, writer: false, whole: true} {
		_, err := g.as(text, host.KVCommit, `{"mutations":[{"op":"put","key":["in","x"],"value":"`+strings.Repeat("x", 20_000)+`"}]}`)
		if e := wantCode(t, err, host.QuotaExceeded); (e.Metadata["actual"] != "") != told {
			t.Errorf("told %v: %v", e.Metadata, e)
		}
	}
}

func TestTokensThatAreNotValid(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	g.must("b", add(1))
	made := g.newToken(token.CreateInput{Rights: []string{"read"}, Label: "night"})
	other := g.newToken(token.CreateInput{Rights: []string{"read"}})
	for _, text := range []string{
		"", "cairn_", made.ID, made.Text + "a", made.Text[:len(made.Text)-1], strings.ToUpper(made.Text), made.Text[:22] + other.Text[22:], made.Text[:21] + "\n" + made.Text[22:],
	} {
		if _, err := g.CheckToken(t.Context(), pAddr("a"), text); !errors.Is(err, token.ErrInvalid) || err.Error() != token.ErrInvalid.Error() {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, a := range []host.Address{pAddr("b"), pAddr("absent"), {Type: "no", Key: []string{"a"}}, {}} {
		if _, err := g.CheckToken(t.Context(), a, made.Text); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("at %v: %v", a, err)
		}
	}
	if g.Find(pAddr("absent")) != nil {
		t.Error("checking a token woke an actor")
	}
	var list token.ListOutput
	if g.mustVerb("a", host.TokenList, nil, &list); len(list.Tokens) != 2 {
		t.Errorf("%+v", list)
	}
	for _, want := range []int64{1, 0} {
		var n host.CountOutput
		if g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: made.ID}, &n); n.Count != want {
			t.Errorf("revoked %d, not %d", n.Count, want)
		}
	}
	if _, err := g.as(made.Text, host.KVGet, `{"key":["in"]}`); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("revoked: %v", err)
	}
	if _, err := g.as(other.Text, host.KVGet, `{"key":["in"]}`); err != nil {
		t.Errorf("the other: %v", err)
	}
	g.restart()
	if _, err := g.as(other.Text, host.KVGet, `{"key":["in"]}`); err != nil || g.Find(pAddr("a")) != nil {
		t.Errorf("after a restart: %v", err)
	}
	if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
		t.Fatal(err)
	}
	g.kv("in.x=1")
	if _, err := g.as(other.Text, host.KVGet, `{"key":["in"]}`); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("a token of another life: %v", err)
	}
}

// The holder of a token is no operator, also where only operators use the store without one.
func TestCallsWithATokenCountAgainstTheRate(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{CallRate: 1e-3, CallBurst: 2}})
	g.kv("a=1")
	text := g.newToken(token.CreateInput{Rights: []string{"read"}}).Text
	refused := 0
	for range 4 {
		if _, err := g.as(text, host.KVGet, `{"key":["a"]}`); err != nil {
			retryAt(t, err)
			refused++
		}
	}
	if refused < 2 {
		t.Errorf("%d of 4 calls were refused", refused)
	}
	g.mustVerb("a", host.KVGet, kv.GetInput{Key: kv.Key{"a"}}, nil)
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
		reply, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.TokenCreate, Codec: host.JSON, Input: []byte(`{"rights":["read"],"label":"needle-7"}`), IdempotencyKey: "k"})
		var out token.CreateOutput
		if err != nil || json.Unmarshal(reply.Output, &out) != nil {
			t.Fatal(err)
		}
		if _, err := g.CheckToken(t.Context(), pAddr("a"), out.Text); err != nil {
			t.Error(err)
		}
		secrets = append(secrets, out.Text[len(token.Prefix)+len(out.ID):])
	}
	if secrets[0] == secrets[1] {
		t.Error("a repeated call has shown a token again")
	}
	g.stop()
	found := false
	err := filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte("needle-7"))
		for _, s := range secrets {
			if bytes.Contains(data, []byte(s)) || bytes.Contains(data, []byte(s[:16])) {
				t.Errorf("%s has a secret", path)
			}
		}
		return err
	})
	if err != nil || !found {
		t.Errorf("the row was found: %t, %v", found, err)
	}
}

func TestABackupHasTheTokensOfItsTime(t *testing.T) {
	t.Parallel()
	g := &stage{t: t, dir: t.TempDir(), types: []*puppetType{{name: "p"}}}
	g.start()
	t.Cleanup(g.stop)
	g.must("a", add(1))
	made := g.newToken(token.CreateInput{Rights: []string{"read"}})
	g.stop()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(g.dir)); err != nil {
		t.Fatal(err)
	}
	g.start()
	g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: made.ID}, nil)
	if _, err := g.CheckToken(t.Context(), pAddr("a"), made.Text); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("revoked: %v", err)
	}
	g.stop()
	g.dir = backup
	g.start()
	if _, err := g.CheckToken(t.Context(), pAddr("a"), made.Text); err != nil {
		t.Errorf("restored: %v", err)
	}
}

func TestATokenExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := openTokens(t)
		made := g.newToken(token.CreateInput{Rights: []string{"read"}, TTLMS: 60_000})
		keys := g.status("a").Keys
		stored := func() int64 { return g.status("a").Keys - keys + 1 }
		if made.Expires == nil || !made.Expires.Equal(made.Created.Add(time.Minute)) {
			t.Errorf("%+v", made)
		}
		for _, wait := range []time.Duration{0, 59_999 * time.Millisecond, time.Millisecond} {
			time.Sleep(wait)
			_, err := g.as(made.Text, host.KVGet, `{"key":["in"]}`)
			if expired := wait == time.Millisecond; expired != errors.Is(err, token.ErrInvalid) {
				t.Errorf("after %s: %v", wait, err)
			}
		}
		var list token.ListOutput
		if g.mustVerb("a", host.TokenList, nil, &list); len(list.Tokens) != 0 {
			t.Errorf("%+v", list)
		}
		if stored() == 0 {
			t.Error("the row is gone before its purge")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if stored() != 0 {
			t.Error("the row is still there")
		}
	})
}

// A watcher, a feed and a poll that wait end when their token does, however it ends, and an idle watch costs nothing until then.
func TestWhatIsFollowedEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"revoked", "expired", "destroyed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := openTokens(t)
				in := token.CreateInput{Rights: []string{"read", "watch"}, Prefix: kv.Key{"in"}}
				if end == "expired" {
					in.TTLMS = 20_000
				}
				made := g.newToken(in)
				grant, err := g.CheckToken(t.Context(), pAddr("a"), made.Text)
				if err != nil {
					t.Fatal(err)
				}
				ctx := token.With(t.Context(), grant)
				w, err := g.WatchKV(ctx, pAddr("a"), kv.Watching{Prefixes: []kv.Key{{"in"}}})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if _, err := g.WatchKV(ctx, pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}}); host.CodeOf(err) != host.PermissionDenied {
					t.Errorf("a watch of all: %v", err)
				}
				time.AfterFunc(time.Second, func() { g.kv("in.x=7", "out=7") })
				if c, err := w.Next(ctx); err != nil || len(c.Changes) != 1 {
					t.Fatalf("%+v %v", c, err)
				}
				var at kv.FeedOutput
				out, err := g.granted(grant, host.KVFeed, `{"prefixes":[["in"]]}`)
				if err != nil || json.Unmarshal([]byte(out), &at) != nil {
					t.Fatal(err)
				}
				version := g.kv("other=1").Version
				time.AfterFunc(18*time.Second, func() {
					switch end {
					case "revoked":
						g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: made.ID}, nil)
					case "destroyed":
						if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
							t.Error(err)
						}
					}
				})
				began := time.Now()
				var all sync.WaitGroup
				follow := func(what string, f func() error) {
					all.Go(func() {
						err := f()
						if code := host.CodeOf(err); end == "destroyed" && code != host.Destroyed || end != "destroyed" && !errors.Is(err, token.ErrInvalid) {
							t.Errorf("%s: %v", what, err)
						}
						if d := time.Since(began); d < 17*time.Second || d > 21*time.Second {
							t.Errorf("%s has ended after %s", what, d)
						}
					})
				}
				follow("the watch", func() error { _, err := w.Next(ctx); return err })
				follow("the feed", func() error {
					_, err := g.granted(grant, host.KVFeed, fmt.Sprintf(`{"prefixes":[["in"]],"after":%d,"life":%q,"wait_ms":60000}`, at.Next+1, at.Life))
					return err
				})
				follow("the poll", func() error {
					_, err := g.granted(grant, host.KVWatch, `{"keys":[{"key":["in","absent"]}],"wait_ms":60000}`)
					return err
				})
				all.Wait()
				_ = version
				if _, err := w.Next(ctx); err == nil {
					t.Error("the watch goes on")
				}
			})
		})
	}
}

func TestTokensAreBoundedAndSafeToUseTogether(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	g.newToken(token.CreateInput{Rights: []string{"read"}})
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
				made := g.newToken(token.CreateInput{Rights: []string{"read"}, Prefix: kv.Key{"in"}})
				if _, err := g.as(made.Text, host.KVGet, `{"key":["in"]}`); err != nil {
					t.Error(err)
				}
			}
			made := g.newToken(token.CreateInput{Rights: []string{"read"}})
			g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: made.ID}, nil)
			g.newToken(token.CreateInput{Rights: []string{"read"}})
		})
	}
	all.Wait()
	e := wantCode(t, g.verb("a", host.TokenCreate, token.CreateInput{Rights: []string{"read"}}, nil), host.TooLarge)
	if e.Metadata["limit"] != "1000" {
		t.Errorf("%v", e)
	}
	listed := func(want int) (ids []string) {
		t.Helper()
		var list token.ListOutput
		if g.mustVerb("a", host.TokenList, nil, &list); len(list.Tokens) != want {
			t.Errorf("%d tokens, want %d", len(list.Tokens), want)
		}
		for _, one := range list.Tokens {
			ids = append(ids, one.ID)
		}
		return ids
	}
	revoke := func(id string) {
		t.Helper()
		var out host.CountOutput
		if g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: id}, &out); out.Count != 1 {
			t.Errorf("revoked %d", out.Count)
		}
	}
	// One of so many inspects. It counts like the others, has room for its successor, and goes on while others are revoked.
	ids := listed(token.MaxTokens)
	inspects := token.CreateInput{Rights: []string{"read", "inspect"}}
	wantCode(t, g.verb("a", host.TokenCreate, inspects, nil), host.TooLarge)
	revoke(ids[0])
	first := g.newToken(inspects)
	made := g.newToken(inspects)
	if all := listed(token.MaxTokens); !slices.Contains(all, made.ID) || slices.Contains(all, first.ID) {
		t.Error("the list lacks the token that inspects, or has the one before")
	}
	wantCode(t, g.verb("a", host.TokenCreate, token.CreateInput{Rights: []string{"read"}}, nil), host.TooLarge)
	revoke(ids[1])
	if _, err := g.as(made.Text, host.TokenList, `{}`); err != nil {
		t.Error(err)
	}
	revoke(made.ID)
	if all := listed(token.MaxTokens - 2); !slices.Equal(all, ids[2:]) {
		t.Error("the list has not the tokens of before, in their order")
	}
	if _, err := g.as(made.Text, host.TokenList, `{}`); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("a token that was revoked: %v", err)
	}
}

// What comes while a token ends is not given out, though nothing was told of the end yet.
func TestNewsFromAfterATokenAreNotGivenOut(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	made := g.newToken(token.CreateInput{Rights: []string{"read"}})
	grant, err := g.CheckToken(t.Context(), pAddr("a"), made.Text)
	if err != nil {
		t.Fatal(err)
	}
	err = grant.While(t.Context(), func(context.Context) error {
		g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: made.ID}, nil)
		return nil
	})
	if !errors.Is(err, token.ErrInvalid) {
		t.Errorf("after the token was revoked: %v", err)
	}
}

// TestATokenWithAPrefixMakesFewScopes: an actor has room for so many, and others need some.
func TestATokenWithAPrefixMakesFewScopes(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	g.must("a", add(1))
	below := g.newToken(token.CreateInput{Rights: []string{"read", "write"}, Prefix: kv.Key{"in"}}).Text
	beside := g.newToken(token.CreateInput{Rights: []string{"read", "write"}, Prefix: kv.Key{"in2"}}).Text
	whole := g.newToken(token.CreateInput{Rights: []string{"read", "write"}}).Text
	set := func(text, prefix string) error {
		_, err := g.as(text, host.KVSetScope, `{"prefix":`+prefix+`}`)
		return err
	}
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{"in"}}, nil) // it counts, too
	for i := range kv.MaxGranted - 1 {
		if err := set(below, fmt.Sprintf(`["in",%d]`, i)); err != nil {
			t.Fatal(i, err)
		}
	}
	e := wantCode(t, set(below, `["in","x"]`), host.TooLarge)
	if e.Metadata["field"] != "prefix" || e.Metadata["limit"] != "100" {
		t.Errorf("%v, with %v", e, e.Metadata)
	}
	for text, prefix := range map[string]string{below: `["in",7]`, beside: `["in2","x"]`, whole: `["in","y"]`} {
		if err := set(text, prefix); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	if _, err := g.as(below, host.KVRemoveScope, `{"prefix":["in",1]}`); err != nil {
		t.Error(err)
	}
	wantCode(t, set(below, `["in","x"]`), host.TooLarge) // the one of the other token counts
	for _, prefix := range []string{`["in",2]`, `["in",3]`} {
		if _, err := g.as(below, host.KVRemoveScope, `{"prefix":`+prefix+`}`); err != nil {
			t.Error(err)
		}
	}
	if err := set(below, `["in","x"]`); err != nil {
		t.Error(err)
	}
}

// A policy that is extended is not that of a map which the type no longer has.
func TestTheScopeOfAMapThatIsGoneIsNotExtended(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", maps: []host.Map{{Name: "plan", Keys: 5}}}
	g := newStage(t, nil, typ)
	g.kv("plan.x=1")
	typ.maps = nil
	g.restart()
	extend := kv.SetScopeInput{Prefix: kv.Key{"plan"}, Extend: true, ScopePolicy: kv.ScopePolicy{MaxBytes: 900}}
	var sc kv.Scope
	if g.mustVerb("a", host.KVSetScope, extend, &sc); sc.Declared || sc.MaxKeys != 0 || sc.MaxBytes != 900 {
		t.Errorf("%+v", sc)
	}
	g.restart()
	if g.mustVerb("a", host.KVSetScope, extend, &sc); sc.Declared || sc.MaxKeys != 0 || sc.MaxBytes != 900 {
		t.Errorf("after a restart: %+v", sc)
	}
}
