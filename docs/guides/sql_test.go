package guides_test

import (
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

var (
	Stores  = actor.NewType[Store]("store")
	AddItem = actor.NewAction[Item, int64](Stores, "add-item")
)

type Store struct{}

type Item struct {
	SKU string
	N   int
}

func (*Store) add(ctx *actor.Context, in Item) (int64, error) {
	r, err := ctx.SQL().ExecContext(ctx, `INSERT INTO item (sku, n) VALUES (?, ?)`, in.SKU, in.N)
	if err != nil {
		return 0, err // errors.Is(err, sqlitevfs.ErrUnique)
	}
	return r.LastInsertId()
}

func storeType() actor.Definition {
	return actor.Define(Stores, actor.Spec[Store]{
		Migrations: []actor.Migration{
			{Name: "001", SQL: `CREATE TABLE item (id INTEGER PRIMARY KEY, sku TEXT NOT NULL UNIQUE, n INTEGER NOT NULL)`},
		},
	}, actor.On(AddItem, (*Store).add))
}

func TestSQL(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		acme := Stores.Ref(h, "acme")
		if id, err := AddItem.Call(t.Context(), acme, Item{"bolt", 7}); err != nil || id != 1 {
			t.Fatal(id, err)
		}
		h.Crash()
		if _, err := AddItem.Call(t.Context(), acme, Item{"bolt", 8}); err == nil {
			t.Error("the same item twice")
		}
		if id, err := AddItem.Call(t.Context(), acme, Item{"nut", 9}); err != nil || id != 2 {
			t.Error(id, err)
		}
	}, storeType())
}
