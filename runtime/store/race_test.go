package store_test

import (
	"sync"
	"testing"

	"github.com/cairn-run/cairn/runtime/store"
)

// A watch that begins while the store is closed either ends with it or does not begin.
func TestWatchesMayBeginWhileTheStoreIsClosed(t *testing.T) {
	for range 20 {
		st, err := store.New(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		watching := make(chan struct{}, 4)
		for range 4 {
			wg.Go(func() {
				for {
					w := st.Watch("*", "*")
					if w.Err() != nil {
						return
					}
					st.Unwatch(w)
					select {
					case watching <- struct{}{}:
					default:
					}
				}
			})
		}
		<-watching
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// A namespace may have the name of a group, which is deleted meanwhile.
func TestDeleteGroupTakesNothingOfANamespace(t *testing.T) {
	st, err := store.New(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	scoped, err := store.NewScoped(st, "a")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = st.Set("a", "k", "v")
			_ = st.DeleteGroup("a") // which may conflict too often
		}
	})
	for range 300 {
		if err := scoped.Set("g", "k", "v"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if there, err := scoped.Exists("g", "k"); !there || err != nil {
				t.Fatal(there, err)
			}
		}
		if err := scoped.Delete("g", "k"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}
