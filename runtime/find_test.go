package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// found lists the keys of all bots that a query selects, page by page.
func found(t *testing.T, list func(host.ListQuery) (host.ListPage, error), q host.ListQuery) string {
	t.Helper()
	q.Type = "bot"
	var keys []string
	for {
		page, err := list(q)
		if err != nil {
			return err.Error()
		}
		for _, s := range page.Actors {
			fatalIf(t, !q.Brief && (s.Version == 0 || s.Bytes == 0 || s.Attributes == nil), "%+v", s)
			keys = append(keys, strings.Join(s.Key, "/"))
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return strings.Join(keys, " ")
		}
	}
}

// ranked makes bots b0 to b11. Their rank is their number divided by three, the even ones are live,
// each has a day, and the size grows.
func ranked(t *testing.T, n actor.Node) {
	t.Helper()
	for i := range 12 {
		mustDo(t, n, fmt.Sprintf("b%02d", i), func(_ *bot, ctx *actor.Context) (string, error) {
			_ = rank.Set(ctx, int64(i/3))
			_ = onAir.Set(ctx, i%2 == 0)
			_ = since.Set(ctx, time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC))
			if i%4 != 0 {
				_ = latest.Set(ctx, fmt.Sprintf("= %d", i%4))
			}
			return "", ctx.KV().Put(nil, make([]byte, 10_000*(i+1)))
		})
	}
}

func TestActorsAreFoundByConditions(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		ranked(t, h)
		list := func(q host.ListQuery) (host.ListPage, error) { return h.List(t.Context(), q) }
		must(t, errOf(invoke(t, h, host.Request{Address: botAt("b03"), Method: host.ActorPause}, host.PauseInput{}, nil)))
		must(t, errOf(invoke(t, h, host.Request{Address: botAt("b02"), Method: host.ActorPause}, host.PauseInput{}, nil)))
		must(t, errOf(invoke(t, h, host.Request{Address: botAt("b01"), Method: host.ActorSleep}, nil, nil)))
		// Each line has conditions, an order and a prefix. A dot is a space in a value.
		datadriven.RunTest(t, "testdata/selections", func(t *testing.T, d *datadriven.TestData) (out string) {
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSuffix(line, "\n")
				parts := strings.Split(line+"||", "|")
				q := host.ListQuery{Sort: strings.TrimSpace(parts[1]), Prefix: strings.Fields(parts[2])}
				for where := range strings.FieldsSeq(parts[0]) {
					q.Where = append(q.Where, strings.ReplaceAll(where, "·", " "))
				}
				keys := found(t, list, q)
				q.Limit, q.Brief = 1, len(line)%2 == 0
				one := found(t, list, q)
				errorIf(t, one != keys, "%s: %s, and in pages of one %s", line, keys, one)
				out += strings.TrimSpace(line+": "+keys) + "\n"
			}
			return out
		})
		// Cursors are of one selection.
		page, err := list(host.ListQuery{Type: "bot", Sort: "rank", Limit: 2})
		must(t, err)
		for _, q := range []host.ListQuery{
			{Type: "bot", Sort: "-rank", Cursor: page.Cursor}, {Type: "bot", Where: []string{"rank=1"}, Cursor: page.Cursor},
			{Type: "bot", Sort: "rank", Cursor: page.Cursor[:len(page.Cursor)-1] + "!"}, {Type: "bot", Sort: "rank", Cursor: "AAAA"},
		} {
			e := wantCode(t, errOf(list(q)), actor.InvalidArgument)
			errorIf(t, e.Metadata["field"] != "cursor", "%v", e)
		}
		for field, q := range map[string]host.ListQuery{
			"where": {Where: []string{"nothing=1"}}, "sort": {Sort: "plan"}, "limit": {Type: "bot", Sort: "key", Limit: 1001},
		} {
			e := wantCode(t, errOf(list(q)), actor.InvalidArgument)
			errorIf(t, e.Metadata["field"] != field, "%v", e)
		}
		wantCode(t, errOf(list(host.ListQuery{Type: "bot", Where: slices.Repeat([]string{"rank=1"}, 17)})), actor.TooLarge)
		// A cleared attribute, a rolled back one, and a destroyed actor.
		mustDo(t, h, "b04", func(_ *bot, ctx *actor.Context) (string, error) {
			had, err := rank.Clear(ctx)
			return fmt.Sprint(had), err
		})
		wantCode(t, errOf(do(h, "b05",
			func(_ *bot, ctx *actor.Context) (string, error) { _ = rank.Set(ctx, 9); return "", errRefused })), actor.FailedPrecondition)
		must(t, h.Destroy(t.Context(), botAt("b06")))
		for range 2 {
			got := found(t, list, host.ListQuery{Sort: "-rank", Where: []string{"rank<3"}})
			errorIf(t, got != "b08 b07 b05 b03 b02 b01 b00", "after changes: %s", got)
			h.Crash()
		}
		s, err := h.Lookup(t.Context(), botAt("b03"))
		must(t, err)
		got := fmt.Sprint(s.Attributes)
		errorIf(t, got != "map[latest:= 3 live:false rank:1 since:2026-01-04 00:00:00 +0000 UTC]", "attributes %s", got)
	})
}

func TestBadAttributesFailTheirTurn(t *testing.T) {
	with(t, actor.Spec[bot]{}, func(t *testing.T, h *actortest.Harness) {
		text := func(s string) func(*actor.Context) { return func(ctx *actor.Context) { _ = latest.Set(ctx, s) } }
		day := func(at time.Time) func(*actor.Context) { return func(ctx *actor.Context) { _ = since.Set(ctx, at) } }
		for i, c := range []struct {
			set  func(*actor.Context)
			code actor.Code
		}{
			{text(strings.Repeat("x", 257)), actor.TooLarge},
			{text("\xff"), actor.InvalidArgument},
			{text(strings.Repeat("\x00", 256)), ""},
			{text(""), ""},
			{day(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), ""},
			{day(time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)), ""},
			{day(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)), actor.InvalidArgument}, // not in JSON
			{day(time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC)), actor.InvalidArgument},
			{day(time.UnixMilli(math.MaxInt64)), actor.InvalidArgument},
		} {
			_, err := do(h, fmt.Sprint("a", i), func(_ *bot, ctx *actor.Context) (string, error) { c.set(ctx); return "", nil })
			errorIf(t, actor.CodeOf(err) != c.code, "attribute %d: %v, want %q", i, err, c.code)
		}
		page, err := h.List(t.Context(), host.ListQuery{Type: "bot", Sort: "since"})
		must(t, err)
		must(t, errOf(json.Marshal(page)))
		fatalIf(t, len(page.Actors) != 2 || page.Actors[0].Key[0] != "a4", "%+v", page)
		// Setting the same value again is no change.
		before := page.Actors[0].Version
		mustDo(t, h, "a4", func(_ *bot, ctx *actor.Context) (string, error) {
			v, ok, err := since.Get(ctx)
			if err != nil || !ok {
				return "", fmt.Errorf("%v %v", ok, err)
			}
			return "", since.Set(ctx, v)
		})
		after := h.Status("bot", "a4").Version
		errorIf(t, after != before, "version %d became %d", before, after)
	})
}

func TestActorsOfAStoppedNodeAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt := openDir(t, dir, botDefinition(actor.Spec[bot]{}))
	ranked(t, rt)
	must(t, errOf(invoke(t, rt, host.Request{Address: botAt("b03"), Method: host.ActorPause}, host.PauseInput{}, nil)))
	must(t, rt.Close())
	offline(t, dir, func(o *runtime.Offline) {
		list := func(q host.ListQuery) (host.ListPage, error) { return o.List(t.Context(), q) }
		for where, want := range map[string]string{
			"rank=1": "b03 b04 b05", "state=paused": "b03", "state!=asleep": "b03", "state=failed": "", "since>2026-01-11": "b11", "live=true": "b00 b02 b04 b06 b08 b10",
			"plan=pro": `invalid_argument: condition "plan=pro": the actor type has no attribute "plan"; every actor has state, run, size, updated and created`,
		} {
			got := found(t, list, host.ListQuery{Where: []string{where}, Brief: true})
			errorIf(t, got != want, "%s: %s, want %s", where, got, want)
		}
	})
}

// numbers makes a table of numbers.
var numbers = []actor.Migration{{Name: "1", SQL: "CREATE TABLE n (i INTEGER)"}}

func TestSQLRunsOverManyDatabases(t *testing.T) {
	with(t, actor.Spec[bot]{Migrations: numbers, IdleTimeout: time.Second}, func(t *testing.T, h *actortest.Harness) {
		for i := range 75 { // more than a page of the list
			mustDo(t, h, fmt.Sprintf("b%03d", i), func(_ *bot, ctx *actor.Context) (string, error) {
				_ = rank.Set(ctx, int64(i%10))
				if i%3 == 2 {
					_, err := ctx.SQL().ExecContext(ctx, "DROP TABLE n")
					return "", err
				}
				for j := range i % 3 {
					if _, err := ctx.SQL().ExecContext(ctx, "INSERT INTO n VALUES (?)", 100*i+j); err != nil {
						return "", err
					}
				}
				return "", nil
			})
		}
		time.Sleep(time.Minute)
		h.Settle()
		// Each line has an input in JSON, or a statement for actors that do not exist.
		datadriven.RunTest(t, "testdata/statements", func(t *testing.T, d *datadriven.TestData) (out string) {
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSuffix(line, "\n")
				in := host.QueryManyInput{Type: "bot", Prefix: []string{"none"}, SQL: strings.ReplaceAll(line, "↵", "\n")}
				if line[0] == '{' {
					in = host.QueryManyInput{Type: "bot"}
					must(t, json.Unmarshal([]byte(line), &in))
				}
				text := ""
				for more := true; more; more = in.Cursor != "" {
					answer, err := h.Runtime().QueryMany(t.Context(), &in)
					if err != nil {
						text = " " + err.Error()
						break
					}
					text += fmt.Sprintf(" %d read", answer.Read)
					for _, a := range answer.Actors {
						text += fmt.Sprint(" ", a.Key[0], a.Rows)
						if a.Error != nil {
							text += string(a.Error.Code)
						}
					}
					in.Cursor = answer.Cursor
				}
				out += line + ":" + text + "\n"
			}
			return out
		})
		page, err := h.List(t.Context(), host.ListQuery{Type: "bot", Where: []string{"state=awake"}})
		errorIf(t, err != nil || len(page.Actors) > 0, "%d actors are awake: %v", len(page.Actors), err)
	})
}

// A readHook is a context that calls f before a query reads an actor's database.
type readHook struct {
	context.Context
	f func()
}

func (h *readHook) Deadline() (time.Time, bool) {
	h.f()
	return h.Context.Deadline()
}

// An answer that ends within a page of actors continues after its last actor, regardless of changes
// to the others meanwhile.
func TestAnAnswerOverManyDatabasesGoesOnAfterItsLastActor(t *testing.T) {
	destroy := func(h *actortest.Harness) error { return h.Destroy(context.Background(), botAt("a")) }
	pause := func(h *actortest.Harness) error {
		return errOf(invoke(t, h, host.Request{Address: botAt("c"), Method: host.ActorPause}, host.PauseInput{}, nil))
	}
	for _, c := range []struct {
		sort   string
		change func(h *actortest.Harness) error
		want   string
	}{{"", destroy, "abcd"}, {"size", destroy, "abcd"}, {"state", destroy, "abcd"}, {"state", pause, "abd"}} { // c has moved before a
		t.Run(c.sort, func(t *testing.T) {
			with(t, actor.Spec[bot]{Migrations: numbers}, func(t *testing.T, h *actortest.Harness) {
				for _, key := range []string{"a", "b", "c", "d"} {
					mustDo(t, h, key, func(_ *bot, ctx *actor.Context) (string, error) {
						_, err := ctx.SQL().ExecContext(ctx, "INSERT INTO n VALUES (1)")
						return "", err
					})
				}
				var change sync.Once
				ctx := &readHook{t.Context(), func() { change.Do(func() { must(t, c.change(h)) }) }}
				read := ""
				in := host.QueryManyInput{Type: "bot", SQL: "SELECT i FROM n", Sort: c.sort, Limit: 1}
				for more := true; more; more = in.Cursor != "" {
					out, err := h.Runtime().QueryMany(ctx, &in)
					must(t, err)
					for _, a := range out.Actors {
						read += a.Key[0]
					}
					in.Cursor = out.Cursor
				}
				errorIf(t, read != c.want, "%s, want %s", read, c.want)
			})
		})
	}
}

// A node whose index cannot be built serves anyway; the next start builds it.
func TestANodeStartsWithoutItsIndex(t *testing.T) {
	t.Parallel()
	n := newNode()
	n.disk.SetFree(1 << 30)
	rt := n.open(t, nil)
	mustDo(t, rt, "a", func(_ *bot, ctx *actor.Context) (string, error) { return "", rank.Set(ctx, 1) })
	must(t, rt.Close())
	s, err := engine.Open(t.Context(), engine.Options{Dir: "data/store", Disk: n.disk})
	must(t, err)
	must(t, s.ResetListing())
	must(t, s.Close())
	for _, c := range []struct {
		free uint64
		want string
	}{
		{1 << 60, "failed_precondition: the index of actors is not built; the next start of a node with this data builds it"},
		{0, "a"},
	} {
		rt := n.open(t, func(o *runtime.Options) { o.MinFreeBytes, o.Logger = c.free, slog.New(slog.DiscardHandler) })
		look(t, rt, "a")
		list := func(q host.ListQuery) (host.ListPage, error) { return rt.List(t.Context(), q) }
		for _, q := range []host.ListQuery{{Sort: "rank"}, {Where: []string{"rank=1"}}} {
			got := found(t, list, q)
			errorIf(t, got != c.want, "with %d bytes that must be free: %s, want %s", c.free, got, c.want)
		}
		must(t, rt.Close())
	}
}
