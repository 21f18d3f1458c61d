package guides_test

import (
	"context"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/client"
)

func addRemotely(ctx context.Context, url, token string) (int64, error) {
	c, err := client.New(url, client.Options{Token: token})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return AddItem.Call(ctx, Stores.Ref(c, "acme"), Item{SKU: "bolt", N: 7})
}

func TestGoClient(t *testing.T) {
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret", Actors: []actor.Definition{storeType()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if id, err := addRemotely(t.Context(), "http://"+rt.Addr(), "secret"); err != nil || id != 1 {
		t.Error(id, err)
	}
	if _, err := addRemotely(t.Context(), "http://"+rt.Addr(), "another"); actor.CodeOf(err) != actor.Unauthenticated {
		t.Error(err)
	}
}
