package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvpart "github.com/cairn-run/cairn/runtime/internal/part/kv"
)

// kv commits mutations to actor a: KEY=VALUE puts, KEY=VALUE@MS puts for a while, KEY+=VALUE adds, -KEY deletes, -KEY/ deletes the range
// of a prefix. Keys have parts with dots between them.
func (g *stage) kv(mutations ...string) kv.CommitOutput {
	g.t.Helper()
	out, err := g.commit("a", mutations)
	check(g.t, err)
	return out
}

// commit is kv for any actor, which it makes if there is none.
func (g *stage) commit(key string, mutations []string) (out kv.CommitOutput, err error) {
	var in kv.CommitInput
	for _, m := range mutations {
		in.Mutations = append(in.Mutations, mutation(m))
	}
	if err = g.verb(key, host.KVCommit, in, &out); host.CodeOf(err) == host.NotFound {
		g.must(key, add(1))
		err = g.verb(key, host.KVCommit, in, &out)
	}
	return out, err
}

func mutation(text string) kv.Mutation {
	key, value, _ := strings.Cut(text, "=")
	if name, ok := strings.CutPrefix(key, "-"); ok {
		if prefix, ok := strings.CutSuffix(name, "/"); ok {
			return kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: dotted(prefix)}}
		}
		return kv.Mutation{Op: "delete", Key: dotted(name)}
	}
	m := kv.Mutation{Op: "put", Key: dotted(key)}
	value, ttl, ok := strings.Cut(value, "@")
	if ok {
		m.TTLMS = new(int64)
		fmt.Sscan(ttl, m.TTLMS)
	}
	if name, ok := strings.CutSuffix(key, "+"); ok {
		m.Op, m.Key = "sum", dotted(name)
	}
	if m.Value = host.Raw(value); !json.Valid(m.Value) {
		m.Value, _ = json.Marshal(value)
	}
	return m
}

func dotted(name string) kv.Key {
	k := kv.Key{}
	for part := range strings.SplitSeq(name, ".") {
		if name != "" {
			k = append(k, part)
		}
	}
	return k
}

// keyText is a key as the tests name it.
func keyText(k kv.Key) string {
	var parts []string
	for _, part := range k {
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, ".")
}

func mustPack(t testing.TB, k kv.Key) []byte {
	t.Helper()
	b, err := k.Entry()
	must(t, err)
	packed, err := b.Pack()
	must(t, err)
	return packed
}

// A watcher remembers what it was told.
type watcher struct {
	kv.Watch
	t       testing.TB
	known   map[string]kv.Entry
	version uint64
}

// watch begins to watch actor a.
func (g *stage) watch(at kv.Watching) *watcher {
	g.t.Helper()
	w, err := g.watcher("a", at)
	g.ok(err)
	return w
}

func (g *stage) watcher(key string, at kv.Watching) (*watcher, error) {
	w, err := g.WatchKV(context.Background(), pAddr(key), at)
	return &watcher{Watch: w, t: g.t, known: make(map[string]kv.Entry)}, err
}

// next takes one answer.
func (w *watcher) next(ctx context.Context) (kv.Changes, error) {
	w.t.Helper()
	out, err := w.Next(ctx)
	if err != nil {
		return out, err
	}
	errorIf(w.t, out.Version < w.version, "version %d after %d", out.Version, w.version)
	w.version = out.Version
	for i, c := range out.Changes {
		key := keyText(c.Key)
		errorIf(w.t, i > 0 && string(mustPack(w.t, out.Changes[i-1].Key)) >= string(mustPack(w.t, c.Key)),
			"%s is out of order, or told twice", key)
		before, known := w.known[key]
		if delete(w.known, key); c.Entry == nil {
			continue
		}
		if w.known[key] = *c.Entry; known && before.Version == c.Entry.Version {
			w.t.Errorf("%s is told again", key)
		}
	}
	return out, nil
}

// told is what a watcher is told next within some time.
func (w *watcher) told(wait time.Duration) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), wait)
	defer cancel()
	began := time.Now()
	out, err := w.next(ctx)
	if host.CodeOf(err) == host.DeadlineExceeded {
		return "nothing"
	} else if err != nil {
		return describe(err)
	}
	var all []string
	absent := 0
	for _, c := range out.Changes {
		if e := c.Entry; e != nil {
			all = append(all, fmt.Sprintf("%s=%.60s", keyText(c.Key), e.Value))
		} else {
			all, absent = append(all, "-"+keyText(c.Key)), absent+1
		}
	}
	text := strings.Join(all, " ")
	if n := len(all); n == 0 {
		text = "that nothing has changed"
	} else if n > 8 {
		text = fmt.Sprintf("%d changes from %s to %s, %d of them deletions", n, keyText(out.Changes[0].Key), keyText(out.Changes[n-1].Key), absent)
	}
	if out.More {
		text += ", and more follows"
	}
	return text + after(began)
}

// after is how long something took, if it did.
func after(began time.Time) string {
	if took := time.Since(began); took > 0 {
		return " after " + took.String()
	}
	return ""
}

// A follower follows the log of entries of an actor.
type follower struct {
	actor string
	in    kv.FeedInput
	seen  []kv.Event
	gaps  []kv.Gap
	made  map[string]string // the entries that the events make
}

// followerFrom follows actor a.
func followerFrom(after uint64, prefixes ...kv.Key) *follower {
	return &follower{actor: "a", in: kv.FeedInput{After: &after, Prefixes: prefixes}, made: map[string]string{}}
}

// read reads one answer.
func (f *follower) read(g *stage, wait time.Duration) error {
	g.t.Helper()
	var out kv.FeedOutput
	f.in.WaitMS = wait.Milliseconds()
	if err := g.verb(f.actor, host.KVFeed, f.in, &out); err != nil {
		return err
	}
	at := *f.in.After
	if out.Gap != nil {
		if f.gaps = append(f.gaps, *out.Gap); out.Gap.Reset {
			at = 0
		}
		at = max(at, out.Gap.First-1)
	}
	for _, e := range out.Events {
		errorIf(g.t, e.Sequence <= at || len(f.in.Prefixes) == 0 && e.Sequence != at+1, "event %d after %d", e.Sequence, at)
		at = e.Sequence
		if delete(f.made, keyText(e.Key)); e.Op == kv.OpPut {
			f.made[keyText(e.Key)] = string(e.Value)
		}
	}
	errorIf(g.t, out.Next < at, "the position is %d after event %d", out.Next, at)
	f.seen = append(f.seen, out.Events...)
	*f.in.After, f.in.Life = out.Next, out.Life
	return nil
}

// readAll reads all that there is.
func (f *follower) readAll(g *stage) {
	g.t.Helper()
	for before := -1; before != int(*f.in.After); {
		before = int(*f.in.After)
		g.ok(f.read(g, 0))
	}
}

// text is what was read since it was last called.
func (f *follower) text() string {
	all := []string{fmt.Sprint("now at ", *f.in.After)}
	for _, gap := range f.gaps {
		all = append(all, fmt.Sprintf("gap %+v", gap))
	}
	for _, e := range f.seen {
		text := fmt.Sprint(e.Sequence, " ", e.Cause, " ", keyText(e.Key))
		if e.Op == kv.OpPut {
			text += "=" + string(e.Value)
		}
		if e.Range != nil {
			text += " of " + keyText(e.Range.Prefix) + "/"
		}
		all = append(all, text)
	}
	f.gaps, f.seen = nil, nil
	return strings.Join(all, "; ")
}

// logs sets the policy of the whole store of actor a, which has a log.
func (g *stage) logs(p kv.ScopePolicy) {
	g.t.Helper()
	p.Log = true
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{}, ScopePolicy: p}, nil)
}

// smaller is by what the bounds of watchers are smaller, where tests divide them: what reads JSON takes its time under the race
// detector.
const smaller = 64

// divided makes the bounds of watchers smaller. An answer has room for 16 values of 16 kB.
func (g *stage) divided() { kernel.PartOf[*kvpart.Part](g.Kernel).Divide(smaller) }

// kvCommand runs the commands of readers of the key-value store.
func (s *scene) kvCommand(w []string) string {
	wait := time.Millisecond
	if len(w) > 2 && (w[0] == "told" || w[0] == "read") {
		wait = s.duration(w[2])
	}
	switch w[0] {
	case "watch": // watch NAME ACTOR [initial] [stored] KEYS PREFIXES/
		at := kv.Watching{Initial: slices.Contains(w, "initial"), Stored: slices.Contains(w, "stored")}
		for _, text := range w[3:] {
			if prefix, ok := strings.CutSuffix(text, "/"); ok {
				at.Prefixes = append(at.Prefixes, dotted(prefix))
			} else if text != "initial" && text != "stored" {
				at.Keys = append(at.Keys, dotted(text))
			}
		}
		watch, err := s.stage().watcher(w[2], at)
		if err == nil {
			s.watchers[w[1]] = watch
		}
		return result("watch "+w[1], err)
	case "told": // told NAME [WAIT]: takes one answer
		return w[1] + " is told " + s.watchers[w[1]].told(wait)
	case "unwatch":
		s.watchers[w[1]].Close()
		delete(s.watchers, w[1])
	case "follow": // follow NAME ACTOR AFTER PREFIXES
		f := followerFrom(uint64(s.number(w[3])))
		for _, prefix := range w[4:] {
			f.in.Prefixes = append(f.in.Prefixes, dotted(prefix))
		}
		f.actor, s.followers[w[1]] = w[2], f
	case "read": // read NAME [WAIT]: the events that follow
		f, began := s.followers[w[1]], time.Now()
		if len(w) < 3 {
			wait = 0
		}
		if err := f.read(s.stage(), wait); err != nil {
			return result("read "+w[1], err) + after(began)
		}
		return w[1] + " is " + f.text() + after(began)
	}
	return ""
}

// commitStep commits mutations within a turn, if the entries of the words that begin with a question mark exist.
func (s *scene) commitStep(t host.Turn, w []string) error {
	var in kv.CommitInput
	for _, text := range w {
		if key, ok := strings.CutPrefix(text, "?"); ok {
			in.Checks = append(in.Checks, kv.Check{Key: dotted(key), Exists: new(true)})
			continue
		}
		m := mutation(text)
		if m.Value != nil {
			m.Value = kv.ByteString(m.Value)
		}
		in.Mutations = append(in.Mutations, m)
	}
	out, err := t.(kv.Committer).KVCommit(&in)
	if err == nil && !out.OK {
		s.say("the checks %v fail", out.Failed)
	}
	return err
}

// kvStep changes an entry with the calls of handlers.
func (s *scene) kvStep(t host.Turn, m kv.Mutation) error {
	if m.Op == "delete" {
		_, err := t.KVDelete(mustPack(s.t, m.Key))
		return err
	}
	var expire time.Time
	if m.TTLMS != nil {
		expire = t.Now().Add(time.Duration(*m.TTLMS) * time.Millisecond)
	}
	return t.KVPut(mustPack(s.t, m.Key), m.Value, host.EncodedJSON, expire)
}

// rawStep puts an entry as it is stored: raw KEY VALUE ENCODING, the first two as hexadecimal digits.
func (s *scene) rawStep(t host.Turn, w []string) error {
	key, kerr := hex.DecodeString(w[1])
	value, verr := hex.DecodeString(w[2])
	if kerr != nil || verr != nil {
		s.fatal("%q is not hexadecimal", w)
	}
	encoding, _ := host.ParseEncoding(w[3])
	return t.KVPut(key, value, encoding, time.Time{})
}
