package actortest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

type tally struct{ Count int }

var (
	tallies  = actor.NewType[tally]("tally")
	add      = actor.NewAction[int, int](tallies, "add")
	fail     = actor.NewAction[int, int](tallies, "fail")
	forward  = actor.NewAction[string, actor.None](tallies, "forward")
	count    = actor.NewQuery[actor.None, int](tallies, "count")
	added    = actor.NewEvent[int](tallies, "added", actor.EventConfig{})
	errWrong = errors.New("wrong")
)

func (t *tally) add(ctx *actor.Context, n int) (int, error) {
	t.Count += n
	added.Emit(ctx, t.Count)
	return t.Count, nil
}

func (t *tally) fail(ctx *actor.Context, n int) (int, error) {
	t.Count += n
	added.Emit(ctx, t.Count)
	return 0, errWrong
}

func (t *tally) forward(ctx *actor.Context, key string) (actor.None, error) {
	return actor.None{}, add.Send(ctx, tallies.Ref(ctx, key), 1)
}

func (t tally) count(*actor.ReadContext, actor.None) (int, error) { return t.Count, nil }

func definition() actor.Definition {
	return actor.Define(tallies, actor.Spec[tally]{},
		actor.On(add, (*tally).add), actor.On(fail, (*tally).fail), actor.On(forward, (*tally).forward),
		actor.OnQuery(count, tally.count))
}

func must[T any](t *testing.T, want T, got T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if any(got) != any(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestFailedTurnLeavesNoTrace(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := context.Background(), tallies.Ref(h, "a")
		if _, err := fail.Call(ctx, ref, 7); err == nil {
			t.Fatal("the call succeeded")
		}
		if keys := h.Inspect("tally", "a"); len(keys) != 0 {
			t.Fatalf("the failed first call left %d keys", len(keys))
		}
		got, err := add.Call(ctx, ref, 1)
		must(t, 1, got, err)
		if _, err := fail.Call(ctx, ref, 7); err == nil {
			t.Fatal("the call succeeded")
		}
		got, err = count.Call(ctx, ref, actor.None{})
		must(t, 1, got, err)
		if ev := h.Events("tally", "a"); len(ev) != 1 || string(ev[0].Data) != "1" {
			t.Fatalf("events: %+v", ev)
		}
	}, definition())
}

func TestMessageIsHandledOnceAcrossACrash(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := context.Background()
		for range 3 {
			if _, err := forward.Call(ctx, tallies.Ref(h, "a"), "b"); err != nil {
				t.Fatal(err)
			}
			h.Crash()
		}
		h.Settle()
		got, err := count.Call(ctx, tallies.Ref(h, "b"), actor.None{})
		must(t, 3, got, err)
		if n := h.Status("tally", "a").PendingSends; n != 0 {
			t.Fatalf("%d messages are left", n)
		}
	}, definition())
}

type diary struct{ Entries int }

var (
	diaries = actor.NewType[diary]("diary")
	write   = actor.NewAction[string, int64](diaries, "write")
	read    = actor.NewQuery[actor.None, []string](diaries, "read")
)

func (d *diary) write(ctx *actor.Context, text string) (id int64, err error) {
	d.Entries++
	err = ctx.SQL().QueryRowContext(ctx, "INSERT INTO entry (written, text) VALUES (?, ?) RETURNING id", ctx.Now(), text).Scan(&id)
	return id, err
}

func (d diary) read(ctx *actor.ReadContext, _ actor.None) (all []string, err error) {
	rows, err := ctx.SQL().QueryContext(ctx, "SELECT text FROM entry WHERE written < ? ORDER BY id", time.Now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

func TestRowsSurviveCrashAndRestartInVirtualTime(t *testing.T) {
	definition := actor.Define(diaries, actor.Spec[diary]{
		IdleTimeout: time.Minute,
		Migrations: []actor.Migration{{Name: "entry",
			SQL: "CREATE TABLE entry (id INTEGER PRIMARY KEY, written DATETIME, text TEXT UNIQUE)"}},
	}, actor.On(write, (*diary).write), actor.OnQuery(read, diary.read))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := context.Background(), diaries.Ref(h, "a")
		for i, again := range []func(){func() { h.Crash() }, func() { h.Restart() }, func() { time.Sleep(time.Hour) }, func() {}} {
			id, err := write.Call(ctx, ref, fmt.Sprint("day ", i))
			must(t, int64(i+1), id, err)
			if _, err := write.Call(ctx, ref, "day 0"); err == nil {
				t.Fatal("a text can be written twice")
			}
			again()
			time.Sleep(time.Second)
			all, err := read.Call(ctx, ref, actor.None{})
			must(t, i+1, len(all), err)
		}
	}, definition)
}
