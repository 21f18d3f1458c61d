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
		ok(t, err)
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
		check(t, st.Close())
		wg.Wait()
	}
}

// A namespace may have the name of a group, which is deleted meanwhile.
func TestDeleteGroupTakesNothingOfANamespace(t *testing.T) {
	st, err := store.New(":memory:")
	ok(t, err)
	defer st.Close()
	scoped, err := store.NewScoped(st, "a")
	ok(t, err)
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
		ok(t, scoped.Set("g", "k", "v"))
		for range 3 {
			same(t, true)(scoped.Exists("g", "k"))
		}
		ok(t, scoped.Delete("g", "k"))
	}
	close(stop)
	wg.Wait()
}
