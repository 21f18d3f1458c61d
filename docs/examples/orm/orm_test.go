package main

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// A desk is an actor whose turns and queries are what a test says. Its schema is that of the
// library.
type desk struct{ N int }

var (
	desks = actor.NewType[desk]("desk")
	turn  = actor.NewAction[actor.None, actor.None](desks, "turn")
	query = actor.NewQuery[actor.None, actor.None](desks, "query")
	notes = actor.NewMap[string, string](desks, "notes", actor.MapConfig{})
)

// A room is a node with a desk.
type room struct {
	t       *testing.T
	harness *actortest.Harness
	turn    func(*desk, *actor.Context) error
	query   func(desk, *actor.ReadContext) error
}

func open(t *testing.T, f func(r *room)) {
	t.Helper()
	r := &room{t: t}
	definition := actor.Define(desks, actor.Spec[desk]{Migrations: actor.MustReadMigrations(migrations, "migrations/*.sql")},
		actor.On(turn, func(d *desk, ctx *actor.Context, _ actor.None) (actor.None, error) {
			return actor.None{}, r.turn(d, ctx)
		}),
		actor.OnQuery(query, func(d desk, ctx *actor.ReadContext, _ actor.None) (actor.None, error) {
			return actor.None{}, r.query(d, ctx)
		}))
	actortest.Run(t, func(_ *testing.T, h *actortest.Harness) {
		r.harness = h
		f(r)
	}, definition)
}

// fails runs a turn and returns the error of f, which is that of the turn.
func (r *room) fails(f func(*desk, *actor.Context) error) (err error) {
	r.turn = func(d *desk, ctx *actor.Context) error {
		err = f(d, ctx)
		return err
	}
	if _, failed := turn.Call(context.Background(), desks.Ref(r.harness, "one"), actor.None{}); (failed != nil) != (err != nil) {
		r.t.Fatalf("the handler returned %v, and the turn %v", err, failed)
	}
	return err
}

// does runs a turn that must succeed.
func (r *room) does(f func(ctx *actor.Context, db *sql.DB) error) {
	r.t.Helper()
	if err := r.fails(func(_ *desk, ctx *actor.Context) error { return f(ctx, ctx.SQL()) }); err != nil {
		r.t.Fatal(err)
	}
}

// asks runs a query and returns the error of f.
func (r *room) asks(f func(d desk, ctx *actor.ReadContext) error) (err error) {
	r.query = func(d desk, ctx *actor.ReadContext) error {
		err = f(d, ctx)
		return nil
	}
	if _, failed := query.Call(context.Background(), desks.Ref(r.harness, "one"), actor.None{}); failed != nil {
		r.t.Fatal(failed)
	}
	return err
}

// withEach runs f once for each tool, on a new node.
func withEach(t *testing.T, f func(r *room, l library)) {
	for name, l := range tools() {
		t.Run(name, func(t *testing.T) { open(t, func(r *room) { f(r, l) }) })
	}
}

var errOnPurpose = errors.New("on purpose")

func someone(name string) author {
	return author{name: name, born: time.Date(1920, 1, 2, 3, 4, 5, 6_000_000, time.UTC), living: true}
}

func someBook(title string, by int64) volume {
	price := 12.5
	return volume{title: title, pages: 300, published: time.Date(1950, 12, 2, 0, 0, 0, 0, time.FixedZone("", 3600)), inPrint: true, price: &price, author: by}
}

func TestRowsAreMadeReadChangedAndDeleted(t *testing.T) {
	withEach(t, func(r *room, l library) {
		var a, b int64
		r.does(func(ctx *actor.Context, db *sql.DB) (err error) {
			if a, err = l.addAuthor(ctx, db, someone("Asimov")); err != nil {
				return err
			}
			for _, title := range []string{"Foundation", "Nemesis"} {
				if b, err = l.addBook(ctx, db, someBook(title, a)); err != nil {
					return err
				}
			}
			return nil
		})
		titles := func(want ...string) {
			t.Helper()
			err := r.asks(func(_ desk, ctx *actor.ReadContext) error {
				got, err := l.titles(ctx, ctx.SQL(), "Asimov")
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("the titles are %q, want %q", got, want)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		titles("Foundation", "Nemesis")
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			n, err := l.withdraw(ctx, db, a)
			if n != 2 {
				t.Errorf("%d books were withdrawn, want 2", n)
			}
			return err
		})
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			got, err := l.book(ctx, db, b)
			if got.inPrint || got.title != "Nemesis" {
				t.Errorf("got %+v", got)
			}
			if err := l.deleteBook(ctx, db, b); err != nil {
				return err
			}
			return err
		})
		titles("Foundation")
	})
}

func TestTimesBoolsAndNullsComeBackAsTheyWere(t *testing.T) {
	withEach(t, func(r *room, l library) {
		var with, without int64
		want := someBook("Foundation", 1)
		bare := volume{title: "Nemesis", published: time.Date(1989, 10, 1, 23, 59, 59, 999_999_000, time.UTC), author: 1}
		r.does(func(ctx *actor.Context, db *sql.DB) (err error) {
			if _, err = l.addAuthor(ctx, db, someone("Asimov")); err != nil {
				return err
			}
			if with, err = l.addBook(ctx, db, want); err != nil {
				return err
			}
			without, err = l.addBook(ctx, db, bare)
			return err
		})
		for id, want := range map[int64]volume{with: want, without: bare} {
			err := r.asks(func(_ desk, ctx *actor.ReadContext) error {
				got, err := l.book(ctx, ctx.SQL(), id)
				if err != nil {
					return err
				}
				if !got.published.Equal(want.published) || got.inPrint != want.inPrint || got.pages != want.pages {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if (got.price == nil) != (want.price == nil) || got.price != nil && *got.price != *want.price {
					t.Errorf("the prices are %v and %v", got.price, want.price)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTransactionInsideATurnIsRolledBackAlone(t *testing.T) {
	withEach(t, func(r *room, l library) {
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			a, err := l.addAuthor(ctx, db, someone("Asimov"))
			if err != nil {
				return err
			}
			if err := l.transaction(ctx, db, someBook("Foundation", a), true); err != nil {
				return err
			}
			if err := l.transaction(ctx, db, someBook("Nemesis", a), false); err != nil {
				return err
			}
			got, err := l.titles(ctx, db, "Asimov")
			if !slices.Equal(got, []string{"Foundation"}) {
				t.Errorf("in the turn the titles are %q", got)
			}
			return err
		})
		err := r.asks(func(_ desk, ctx *actor.ReadContext) error {
			got, err := l.titles(ctx, ctx.SQL(), "Asimov")
			if !slices.Equal(got, []string{"Foundation"}) {
				t.Errorf("after the turn the titles are %q", got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestFailingTurnLeavesNeitherRowsNorState(t *testing.T) {
	withEach(t, func(r *room, l library) {
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			_, err := l.addAuthor(ctx, db, someone("Asimov"))
			return err
		})
		err := r.fails(func(d *desk, ctx *actor.Context) error {
			d.N = 7
			if err := notes.Put(ctx, "a", "note"); err != nil {
				return err
			}
			if _, err := l.addBook(ctx, ctx.SQL(), someBook("Foundation", 1)); err != nil {
				return err
			}
			if err := l.transaction(ctx, ctx.SQL(), someBook("Nemesis", 1), true); err != nil {
				return err
			}
			return errOnPurpose
		})
		if !errors.Is(err, errOnPurpose) {
			t.Fatal(err)
		}
		err = r.asks(func(d desk, ctx *actor.ReadContext) error {
			got, err := l.titles(ctx, ctx.SQL(), "Asimov")
			if _, there, _ := notes.Get(ctx, "a"); there || d.N != 0 || len(got) != 0 {
				t.Errorf("left were N = %d, the note: %v, the titles %q", d.N, there, got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		r.does(func(ctx *actor.Context, db *sql.DB) error { // as if nothing had been
			_, err := l.addBook(ctx, db, someBook("Foundation", 1))
			return err
		})
	})
}

func TestUniqueViolationIsRecognisedAndTheTurnGoesOn(t *testing.T) {
	withEach(t, func(r *room, l library) {
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			if _, err := l.addAuthor(ctx, db, someone("Asimov")); err != nil {
				return err
			}
			_, err := l.addAuthor(ctx, db, someone("Asimov"))
			if !l.isUnique(err) {
				t.Errorf("a second author of the name: %v", err)
			}
			if !errors.Is(err, sqlitevfs.ErrUnique) {
				t.Errorf("the cause of %v is hidden", err)
			}
			if _, err := l.addBook(ctx, db, someBook("Foundation", 99)); err == nil || l.isUnique(err) || !errors.Is(err, sqlitevfs.ErrForeignKey) {
				t.Errorf("a book of nobody: %v", err)
			}
			_, err = l.addBook(ctx, db, someBook("Foundation", 1))
			return err
		})
	})
}

func TestQueryCannotWrite(t *testing.T) {
	withEach(t, func(r *room, l library) {
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			_, err := l.addAuthor(ctx, db, someone("Asimov"))
			return err
		})
		err := r.asks(func(_ desk, ctx *actor.ReadContext) error {
			_, err := l.addAuthor(ctx, ctx.SQL(), someone("Clarke"))
			return err
		})
		if !errors.Is(err, sqlitevfs.ErrReadOnly) {
			t.Errorf("a query that writes fails with %v", err)
		}
	})
}

// TestToolsShareATurn writes with one and reads with the others, before anything is durable and
// after a power cut.
func TestToolsShareATurn(t *testing.T) {
	open(t, func(r *room) {
		r.does(func(ctx *actor.Context, db *sql.DB) error {
			for name, l := range tools() {
				a, err := l.addAuthor(ctx, db, someone(name))
				if err != nil {
					return err
				}
				if _, err := l.addBook(ctx, db, someBook("By "+name, a)); err != nil {
					return err
				}
				for reader, other := range tools() {
					if got, err := other.titles(ctx, db, name); err != nil || !slices.Equal(got, []string{"By " + name}) {
						t.Errorf("%s wrote, %s read %q, %v", name, reader, got, err)
					}
				}
			}
			return nil
		})
		r.harness.Crash()
		err := r.asks(func(_ desk, ctx *actor.ReadContext) error {
			for name := range tools() {
				for reader, other := range tools() {
					if got, err := other.titles(ctx, ctx.SQL(), name); err != nil || !slices.Equal(got, []string{"By " + name}) {
						t.Errorf("%s wrote, after a crash %s read %q, %v", name, reader, got, err)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestEntFindsTheMigrationsUpToDate holds migrations and ent's schema to each other: only the table
// of the reviews is missing.
func TestEntFindsTheMigrationsUpToDate(t *testing.T) {
	open(t, func(r *room) {
		plan := func(ctx *actor.Context) string {
			var b strings.Builder
			if err := entClient(ctx.SQL()).Schema.WriteTo(ctx, &b); err != nil {
				t.Error(err)
			}
			return b.String()
		}
		r.does(func(ctx *actor.Context, _ *sql.DB) error {
			if p := plan(ctx); strings.Contains(p, "authors`") || strings.Count(p, "CREATE TABLE") != 1 {
				t.Errorf("ent would do:\n%s", p)
			}
			return entClient(ctx.SQL()).Schema.Create(ctx)
		})
		r.does(func(ctx *actor.Context, _ *sql.DB) error {
			if p := plan(ctx); strings.Contains(p, "TABLE") {
				t.Errorf("after ent's migration it would do:\n%s", p)
			}
			return entClient(ctx.SQL()).Schema.Create(ctx) // does nothing
		})
	})
}

func TestTablesThatEntCreatesVanishWithAFailingTurn(t *testing.T) {
	open(t, func(r *room) {
		tables := func() (n int) {
			if err := r.asks(func(_ desk, ctx *actor.ReadContext) error {
				return ctx.SQL().QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'reviews'").Scan(&n)
			}); err != nil {
				t.Error(err)
			}
			return n
		}
		r.does(func(*actor.Context, *sql.DB) error { return nil })
		err := r.fails(func(_ *desk, ctx *actor.Context) error {
			if err := entClient(ctx.SQL()).Schema.Create(ctx); err != nil {
				return err
			}
			return errOnPurpose
		})
		if !errors.Is(err, errOnPurpose) || tables() != 0 {
			t.Errorf("%v; %d tables", err, tables())
		}
		r.does(func(ctx *actor.Context, db *sql.DB) error { return entClient(db).Schema.Create(ctx) })
		if tables() != 1 {
			t.Error("the table is missing")
		}
	})
}

func TestLibrary(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := context.Background(), Libraries.Ref(h, "city")
		in := Acquisition{Title: "Foundation", Author: "Asimov", Born: someone("").born, Published: someBook("", 0).published, Pages: 255}
		if _, err := Acquire.Call(ctx, ref, in); err != nil {
			t.Fatal(err)
		}
		if _, err := Acquire.Call(ctx, ref, in); actor.CodeOf(err) != actor.AlreadyExists {
			t.Errorf("the same book again: %v", err)
		}
		in.Title = "Nemesis"
		if _, err := Acquire.Call(ctx, ref, in); err != nil {
			t.Error(err)
		}
		for i, stars := range []int{4, 5} {
			if n, err := Rate.Call(ctx, ref, Rating{Title: "Foundation", Stars: stars}); err != nil || n != i+1 {
				t.Errorf("%d ratings, %v", n, err)
			}
		}
		for want, in := range map[actor.Code]Rating{actor.NotFound: {Title: "Dune", Stars: 3}, actor.InvalidArgument: {Title: "Nemesis", Stars: 6}} {
			if _, err := Rate.Call(ctx, ref, in); actor.CodeOf(err) != want {
				t.Errorf("%+v: %v", in, err)
			}
		}
		got, err := Catalogue.Call(ctx, ref, actor.None{})
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		if e := got[0]; e.Title != "Foundation" || e.Author != "Asimov" || e.Stars != 4.5 || !e.InPrint || !e.Published.Equal(in.Published) {
			t.Errorf("got %+v", e)
		}
		if got[1].Stars != 0 {
			t.Errorf("got %+v", got[1])
		}
	}, definition())
}
