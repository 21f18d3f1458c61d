package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cairn-run/cairn/keyspace"
)

// TestEngineScripts runs the life cycles of testdata/scripts with each way to commit. A line is a
// call, and the results follow its block; `go test ./engine -run TestEngineScripts -rewrite`
// rewrites the results. The number after most calls is that of an actor. Keys and values are Go
// strings without quotes; x*300 is a long value.
func TestEngineScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		eachMode(t, func(t *testing.T, o Options) {
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				s := &script{t: t, spaces: map[int]*Space{}, saved: map[string]Savepoint{}, held: map[string]*Savepoint{}, o: o}
				for _, arg := range d.CmdArgs {
					n, err := strconv.Atoi(arg.Vals[0])
					must(t, err)
					switch arg.Key {
					case "quota":
						s.o.Limits.Quota = int64(n)
					case "set":
						s.o.Limits.MaxWriteSet = n
					}
				}
				s.o = small(s.o)
				s.store = mustOpen(t, s.o)
				defer func() { s.store.Close() }()
				for line := range strings.SplitSeq(d.Input, "\n") {
					if result := s.call(strings.Fields(line)); result != "" {
						fmt.Fprintf(&s.out, "%s: %s\n", line, result)
					}
				}
				checkRows(t, s.store)
				return s.out.String()
			})
		})
	})
}

// A script is a store and the values that a script has named.
type script struct {
	t      *testing.T
	o      Options
	store  *Store
	spaces map[int]*Space
	saved  map[string]Savepoint
	held   map[string]*Savepoint
	out    strings.Builder
}

// call makes the call of a line and returns its result, or nothing if it has none.
func (s *script) call(f []string) string {
	if len(f) == 0 {
		return ""
	}
	text := func(i int) string {
		v, err := strconv.Unquote(`"` + f[i] + `"`)
		must(s.t, err, f[i])
		if unit, n, ok := strings.Cut(v, "*"); ok {
			return strings.Repeat(unit, int(s.number(n)))
		}
		return v
	}
	key := func(i int) []byte {
		if f[i] == "-" {
			return nil
		}
		return []byte(text(i))
	}
	n := func(i int) int64 { return s.number(f[i]) }
	result := func(v any, err error) string { return fmt.Sprint(v, " ", failed(err)) }
	var words []string
	actor := 0
	if len(f) > 1 {
		actor, _ = strconv.Atoi(f[1])
	}
	sp := s.spaces[actor]
	var w *WriteSet
	if sp != nil {
		w = sp.Writes()
	}
	switch f[0] {
	case "reopen":
		must(s.t, s.store.Close())
		s.store = mustOpen(s.t, s.o)
		return ""
	case "open", "new":
		open := s.store.OpenSpace
		if f[0] == "new" {
			open = s.store.NewSpace
		}
		opened, err := open(testID(actor))
		if err == nil {
			s.spaces[actor] = opened
		}
		return failed(err)
	case "as": // another number for the space of an actor
		s.spaces[int(n(2))] = sp
		return ""
	case "close":
		sp.Close()
		return ""
	case "create":
		return failed(w.Create(Identity{"ns", f[2], f[3:]}))
	case "advance":
		w.Advance(n(2))
		return ""
	case "mark":
		w.Mark()
		return ""
	case "put":
		o := PutOptions{}
		if len(f) > 4 {
			o.ExpireAt = n(4)
		}
		return failed(w.Put(key(2), []byte(text(3)), o))
	case "fill":
		for i := range n(3) {
			put(s.t, w, fmt.Appendf(key(2), "%03d", i), "")
		}
		return ""
	case "get":
		e, ok, err := w.Get(key(2))
		if err != nil || !ok {
			return failed(err) + map[bool]string{true: "absent"}[err == nil]
		}
		errorIf(s.t, e.Value == nil, "%q reads as nil", e.Key)
		return fmt.Sprintf("%.20s, %d bytes, version %d, created %s, expires %d", e.Value, e.Size, e.Version, when(e.Created), e.Expire)
	case "delete":
		return result(w.Delete(key(2)))
	case "range":
		return result(w.DeleteRange(key(2), key(3)))
	case "destroy":
		var kept []keyspace.Kind
		for i := range f[2:] {
			kept = append(kept, keyspace.Kind(key(2 + i)[0]))
		}
		return failed(w.Destroy(kept...))
	case "save":
		s.saved[f[2]] = w.Savepoint()
		return ""
	case "rollback":
		w.Rollback(s.saved[f[2]])
		return ""
	case "hold":
		s.held[f[2]] = w.Hold()
		return ""
	case "release": // and undo the writes after it
		ok := w.Release(s.held[f[2]])
		if ok {
			w.Rollback(*s.held[f[2]])
		}
		return fmt.Sprint(ok)
	case "changed":
		since := s.saved[f[2]]
		return fmt.Sprint(w.Changed(&since), ", next wake ", w.NextWake())
	case "commit":
		return failed(errOf(commitWait(sp)))
	case "split":
		kept, split, err := sp.CommitBefore(s.saved[f[2]], nil)
		s.saved[f[2]] = kept
		return result(split, err)
	case "head":
		h := sp.Head()
		return fmt.Sprintf("generation %d, version %d, %d keys, %d bytes, created %s, updated %s, destroyed %v",
			h.Generation, h.Version, h.Keys, h.Bytes, when(h.Created), when(h.Updated), h.Destroyed)
	case "set":
		return fmt.Sprintf("version %d, %d keys, %d bytes, %d held, room %d", w.Version(), w.Keys(), w.Size(), w.Bytes(), w.Room())
	case "stored": // as a snapshot reads it
		e, ok, err := s.store.Snapshot(testID(actor)).Get(key(2))
		return fmt.Sprintf("%.20s %v %s", e.Value, ok, failed(err))
	case "list":
		page, err := w.List(ListQuery{Prefix: key(2)})
		must(s.t, err)
		for _, e := range page.Entries {
			words = append(words, fmt.Sprintf("%q", e.Key))
		}
		return strings.Join(words, " ")
	case "rows":
		prefix := keyspace.AppendActorPrefix(nil, testID(actor))
		return fmt.Sprint(countRows(s.t, s.store, prefix, keyspace.Successor(prefix)))
	case "lookup":
		id, ok, err := s.store.Lookup(Identity{"ns", f[1], f[2:]})
		for i := range 9 {
			if ok && id == testID(i) {
				return fmt.Sprint("actor ", i)
			}
		}
		return result(ok, err)
	case "tombstone":
		tomb, ok, err := s.store.Tombstone(testID(actor))
		return fmt.Sprintf("%v of version %d at %s %v %s", tomb.Identity.Key, tomb.Version, when(tomb.Destroyed), ok, failed(err))
	case "wake":
		w.SetWake(n(2), keyspace.WakeAlarm, f[3], "i")
		return ""
	case "clear":
		w.ClearWake(n(2), keyspace.WakeAlarm, f[3], "i")
		return ""
	case "wakes":
		all, err := s.store.Wakes(nil, n(1), int(n(2)))
		must(s.t, err)
		for _, a := range all {
			words = append(words, fmt.Sprint(a.Due, " ", a.Name))
		}
		return strings.Join(words, ", ")
	case "record":
		return failed(w.Outbox([]byte(text(2)), nil))
	case "outbox":
		rows, err := s.store.Outbox(uint64(n(1)), int(n(2)))
		must(s.t, err)
		for _, r := range rows {
			words = append(words, fmt.Sprintf("%d %s", r.Seq, r.Record))
		}
		count, bytes := s.store.OutboxSize()
		return fmt.Sprintf("%s; %d rows of %d bytes", strings.Join(words, ", "), count, bytes)
	case "ack":
		var seqs []uint64
		for i := range f[1:] {
			seqs = append(seqs, uint64(n(1+i)))
		}
		return failed(s.store.AckOutbox(seqs))
	case "expired":
		due, _, err := w.Expired(n(2), 10)
		for i := range due {
			words = append(words, string(due[i].Key))
		}
		return fmt.Sprintf("%q %s", words, failed(err))
	}
	s.t.Fatalf("no call %q", f[0])
	return ""
}

func (s *script) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	must(s.t, err)
	return n
}

// failed names an error.
func failed(err error) string {
	var limit *LimitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &limit):
		return "limit: " + limit.What
	}
	for name, is := range map[string]error{"exists": ErrExists, "destroyed": ErrDestroyed, "fenced": ErrFenced, "closed": ErrClosed,
		"reserved": ErrReserved, "quota": &QuotaError{}} {
		if errors.Is(err, is) {
			return name
		}
	}
	return err.Error()
}

// when returns a time of a script; a turn that was not advanced has the clock's.
func when(ms int64) string {
	if ms > 1<<40 {
		return "now"
	}
	return fmt.Sprint(ms)
}
