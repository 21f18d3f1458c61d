package store_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/cairn-run/cairn/runtime/store"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	st, err := store.Open(dir)
	if err != nil {
		panic(err)
	}
	defer st.Close()

	if err := st.Set("miner", "pool", "pool.lthn.io:3333"); err != nil {
		panic(err)
	}
	fmt.Println(st.Get("miner", "pool"))
	_, err = st.Get("miner", "wallet")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	fmt.Println(st.Render(`{"pool":"{{ .pool }}","wallet":"{{ .wallet }}"}`, "miner"))
	// Output:
	// pool.lthn.io:3333 <nil>
	// true
	// {"pool":"pool.lthn.io:3333","wallet":"<no value>"} <nil>
}

func ExampleNewScopedWithQuota() {
	st, err := store.New(":memory:")
	if err != nil {
		panic(err)
	}
	defer st.Close()

	tenant, err := store.NewScopedWithQuota(st, "tenant-42", store.QuotaConfig{MaxKeys: 2})
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"theme", "language", "zone"} {
		err = tenant.Set("config", key, "x")
		fmt.Println(key, err == nil, errors.Is(err, store.ErrQuotaExceeded))
	}
	fmt.Println(st.Groups(""))
	fmt.Println(st.CountAll("tenant-42:"))
	// Output:
	// theme true false
	// language true false
	// zone false true
	// [tenant-42:config] <nil>
	// 2 <nil>
}

func ExampleStore_Watch() {
	st, err := store.New(":memory:")
	if err != nil {
		panic(err)
	}
	defer st.Close()

	w := st.Watch("config", "*")
	defer st.Unwatch(w)
	err = errors.Join(st.Set("config", "theme", "dark"), st.Set("other", "k", "v"), st.Delete("config", "theme"),
		st.Delete("config", "theme"),
		st.Set("config", "theme", "light"), st.DeleteGroup("config"))
	if err != nil {
		panic(err)
	}
	for range 4 {
		e := <-w.Ch
		fmt.Printf("%s %s %q %q\n", e.Type, e.Group, e.Key, e.Value)
	}
	// Output:
	// set config "theme" "dark"
	// delete config "theme" ""
	// set config "theme" "light"
	// delete_group config "" ""
}

func ExampleStore_OnChange() {
	st, err := store.New(":memory:")
	if err != nil {
		panic(err)
	}
	defer st.Close()

	stop := st.OnChange(func(e store.Event) {
		if e.Group == "config" {
			err := st.Set("copy", e.Key, e.Value) // a callback may use the store
			fmt.Println(e.Type, e.Key, e.Value, err)
		}
	})
	defer stop()
	if err := st.Set("config", "theme", "dark"); err != nil {
		panic(err)
	}
	fmt.Println(st.Sync(ctx))
	fmt.Println(st.Get("copy", "theme"))
	// Output:
	// set theme dark <nil>
	// <nil>
	// dark <nil>
}

func ExampleStore_Transaction() {
	st, err := store.New(":memory:")
	if err != nil {
		panic(err)
	}
	defer st.Close()

	err = st.Transaction(func(tx *store.Store) error {
		if err := tx.Set("account", "ada", "10"); err != nil {
			return err
		}
		fmt.Println(tx.Get("account", "ada"))
		return errors.New("no money")
	})
	fmt.Println(err)
	fmt.Println(st.Exists("account", "ada"))
	// Output:
	// 10 <nil>
	// no money
	// false <nil>
}
