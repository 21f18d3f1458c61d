package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvpart "github.com/cairn-run/cairn/runtime/internal/part/kv"
)

// kv commits mutations to actor a: KEY=VALUE puts, KEY=VALUE@MS puts for a while, KEY+=VALUE adds,
// -KEY deletes, -KEY/ deletes the range of a prefix. Keys have parts with dots between them.
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

// keyText is a key in its form for the tests.
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

// A watcher remembers its answers.
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

// told returns the next answer of a watcher within some time.
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
		text = fmt.Sprintf("%d changes from %s to %s, %d of them deletions", n, keyText(out.Changes[0].Key),
			keyText(out.Changes[n-1].Key), absent)
	}
	if out.More {
		text += ", and more follows"
	}
	return text + after(began)
}

// after returns how long something took, if it took any time.
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

// text returns what was read since the last call.
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

// smaller is the divisor of the bounds of watchers, where tests divide them: reading JSON takes its
// time under the race detector.
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

// commitStep commits mutations within a turn, if the entries of the words that begin with a
// question mark exist.
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

// rawStep puts an entry as it is stored: raw KEY VALUE ENCODING, the first two as hexadecimal
// digits.
func (s *scene) rawStep(t host.Turn, w []string) error {
	key, kerr := hex.DecodeString(w[1])
	value, verr := hex.DecodeString(w[2])
	if kerr != nil || verr != nil {
		s.fatal("%q is not hexadecimal", w)
	}
	encoding, _ := host.ParseEncoding(w[3])
	return t.KVPut(key, value, encoding, time.Time{})
}

func TestAuditScripts(t *testing.T) { runScripts(t, "audit") }
func TestTokenScripts(t *testing.T) { runScripts(t, "tokens") }
func TestTraceScripts(t *testing.T) { runScripts(t, "traces") }
func TestUsageScripts(t *testing.T) { runScripts(t, "usage") }

// A ledger has what a scenario remembers for the commands below.
type ledger struct {
	tokens map[string]token.CreateOutput
	ids    map[string]string // numbers of the ids of traces and spans
	from   string            // the traceparent of calls, if any
	tails  map[string]trace.Tail
}

// record runs a command about records of actors: the audit log, tokens, traces and usage.
func (s *scene) record(line string, w []string, rest func(n int) string) string {
	switch w[0] {
	case "operate": // operate ACTOR METHOD INPUT: as an operator
		reply, err := s.stage().operate(w[1], w[2], rest(min(3, len(strings.Fields(line)))))
		if err != nil {
			return result(w[2], err)
		}
		return strings.TrimSuffix(w[2]+": "+string(reply.Output), ": ")
	case "audit":
		return s.audit(w[1])
	case "token": // token NAME INPUT: makes one of actor "a"
		reply, err := s.stage().operate("a", host.TokenCreate, rest(2))
		var out token.CreateOutput
		if err == nil {
			err = json.Unmarshal(reply.Output, &out)
			s.tokens = with(s.tokens, w[1], out)
		}
		return result("token", err)
	case "revoke":
		return s.command(fmt.Sprintf("operate a %s {\"id\":%q}", host.TokenRevoke, s.tokens[w[1]].ID))
	case "tokens": // their names
		var out token.ListOutput
		s.stage().mustVerb("a", host.TokenList, nil, &out)
		names := []string{}
		for _, one := range out.Tokens {
			for name, made := range s.tokens {
				if made.ID == one.ID {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		return fmt.Sprintf("%d tokens: %v", len(out.Tokens), names)
	case "as": // as NAME METHOD INPUT: calls actor "a" with a token
		out, err := s.stage().as(s.tokens[w[1]].Text, w[2], rest(3))
		if err != nil {
			return result(w[2], err)
		}
		return w[2] + ": " + out
	case "traced", "untraced": // the rest is a command whose caller has a trace that is recorded, or is not
		s.from = map[string]string{"traced": sampledFrom, "untraced": unsampledFrom}[w[0]]
		defer func() { s.from = "" }()
		return s.command(rest(1))
	case "request": // request ACTOR NAME: one over HTTP ends, whose caller has a trace that is recorded
		client := host.ParseSpan(sampledFrom)
		s.stage().EndRequest(addr(w[1]), "http", w[2], s.g.BeginRequest("p", client), client, time.Now(), nil)
	case "spans": // spans ACTOR NAMES: the ones whose names begin so, each below its parent
		return s.spans(w[1], w[2:])
	case "tail": // tail NAME ACTOR INPUT: follows the spans of an actor
		var in trace.FollowInput
		if err := json.Unmarshal([]byte(rest(3)), &in); err != nil {
			s.fatal("%v", err)
		}
		if last := s.tails[w[1]]; in.Life == "again" { // the life of the tail before
			in.Life = last.Life()
		}
		tail, err := s.stage().FollowTraces(s.t.Context(), addr(w[2]), in)
		if err != nil {
			return result("tail", err)
		}
		s.t.Cleanup(tail.Close)
		s.tails = with(s.tails, w[1], tail)
	case "drain": // the spans that a tail has by now, and why it has nothing else
		news, err := drain(s.tails[w[1]])
		if host.CodeOf(err) == host.DeadlineExceeded {
			err = nil
		}
		return fmt.Sprintf("%s has %q, missed %d%s", w[1], spanNames(news.Spans), news.Missed, result(", then", err))
	case "top": // top BY LIMIT
		synctest.Wait()
		out, err := s.stage().Top(usage.TopQuery{By: usage.Measure(w[1]), Limit: s.number(w[2])})
		var keys []string
		for _, a := range out.Actors {
			keys = append(keys, a.Key...)
		}
		return fmt.Sprintf("top by %s: %v%s", w[1], keys, result(", then", err))
	case "usage":
		return s.usage(w[1])
	}
	return ""
}

// observe is a step that writes a line to the log, or begins spans in the current one and gives
// that an attribute.
func (s *scene) observe(x *player, w []string) {
	if w[0] == "tell" {
		x.read.Logger().Info(w[1])
		return
	}
	ctx := context.Context(x.task)
	if x.read != nil {
		ctx = x.read
	}
	span := oteltrace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("plan", w[1]))
	shop := span.TracerProvider().Tracer("shop")
	own, outer := shop.Start(ctx, "outer")
	_, inner := shop.Start(own, "inner")
	inner.End()
	outer.End()
}

// with puts a value into a map, which it makes if there is none.
func with[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = v
	return m
}

func (s *scene) audit(key string) string {
	all := []string{"audit:"}
	for _, r := range s.stage().records(key) {
		text := fmt.Sprintf("  %s of version %d by %s over %s", r.Verb, r.Version, r.Principal, r.Channel)
		if r.Reason != "" {
			text += fmt.Sprintf(", %q", r.Reason)
		}
		for _, x := range []struct {
			name string
			json host.Raw
		}{{"input", r.Input}, {"before", r.Before}, {"after", r.After}} {
			if x.json != nil {
				text += fmt.Sprintf("; %s %s", x.name, x.json)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

func (s *scene) usage(key string) string {
	synctest.Wait() // a reply may come before its commit is counted
	var out usage.GetOutput
	if err := s.stage().verb(key, host.UsageGet, usage.GetInput{}, &out); err != nil {
		return result("usage", err)
	}
	var all []string
	for _, d := range out.Days {
		all = append(all, fmt.Sprintf("%s: %d calls, %d turns, %d us, %d bytes are stored, %d sent",
			d.Day, d.Calls, d.Turns, d.HandlerUS, d.BytesStored, d.BytesSent))
	}
	return strings.Join(all, "\n")
}

// spans prints the spans of an actor as a tree. Each has a number from its first occurrence on.
func (s *scene) spans(key string, names []string) string {
	var out trace.ReadOutput
	if err := s.stage().verb(key, host.TraceRead, nil, &out); err != nil {
		return result("spans", err)
	}
	all := slices.DeleteFunc(out.Spans, func(x trace.Span) bool {
		begins := func(name string) bool { return strings.HasPrefix(x.Name, name) }
		return len(names) > 0 && !slices.ContainsFunc(names, begins)
	})
	slices.SortStableFunc(all, func(a, b trace.Span) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		version := func(x trace.Span) float64 { v, _ := x.Attributes["cairn.version"].(float64); return v }
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(version(a), version(b)))
	})
	within := make(map[string]bool)
	for _, x := range all {
		within[x.SpanID] = true
	}
	lines := []string{fmt.Sprintf("%d spans", len(all))}
	var show func(x trace.Span, indent string)
	show = func(x trace.Span, indent string) {
		lines = append(lines, indent+s.span(x, within))
		for _, y := range all {
			if y.ParentID == x.SpanID {
				show(y, indent+"  ")
			}
		}
	}
	for _, x := range all {
		if !within[x.ParentID] {
			show(x, "  ")
		}
	}
	return strings.Join(lines, "\n")
}

func (s *scene) span(x trace.Span, within map[string]bool) string {
	text := fmt.Sprintf("%s %s %s", s.nameOf(x.SpanID), x.Kind, x.Name)
	if !within[x.ParentID] {
		text += " of " + s.nameOf(x.TraceID)
		if x.ParentID != "" {
			text += " from " + s.nameOf(x.ParentID)
		}
	}
	if x.Scope != "" {
		text += " in " + x.Scope
	}
	if x.Remote {
		text += ", remote"
	}
	for _, l := range x.Links {
		text += ", linked to " + s.nameOf(l.SpanID)
	}
	if x.End == nil {
		text += ", open"
	} else if took := x.End.Sub(x.Start); took >= time.Millisecond {
		text += fmt.Sprintf(", %s", took)
	}
	if x.Status != "" {
		text += ", " + x.Status + " " + x.Message
	}
	if x.Attributes["cairn.work"] != nil { // how many turns come before depends on how they are scheduled
		delete(x.Attributes, "cairn.version")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Attributes)) {
		text += fmt.Sprintf(" %s=%v", name, x.Attributes[name])
	}
	return text
}

// nameOf returns a stand-in for the id of a trace or span.
func (s *scene) nameOf(id string) string {
	if id == parentTrace || id == parentSpan {
		return "caller"
	}
	if s.ids[id] == "" {
		s.ids = with(s.ids, id, fmt.Sprintf("%c%d", map[int]byte{16: 's', 32: 't'}[len(id)], len(s.ids)+1))
	}
	return s.ids[id]
}

var traceparent = regexp.MustCompile(`00-([0-9a-f]{32})-([0-9a-f]{16})-`)

// numbered shows traceparents with the numbers of their trace and span.
func (s *scene) numbered(line string) string {
	return traceparent.ReplaceAllStringFunc(line, func(text string) string {
		ids := traceparent.FindStringSubmatch(text)
		return s.nameOf(ids[1]) + "-" + s.nameOf(ids[2]) + "-"
	})
}
