package guides_test

import (
	"errors"
	"log"
	"path/filepath"
	"testing"

	"github.com/cairn-run/cairn/runtime/store"
)

func TestStore(t *testing.T) {
	if err := useStore(filepath.Join(t.TempDir(), "store")); err != nil {
		t.Error(err)
	}
}

func useStore(dir string) error {
	st, err := store.Open(dir)
	if err != nil {
		return err
	}
	defer st.Close()

	if err := st.Set("config", "theme", "dark"); err != nil {
		return err
	}
	theme, err := st.Get("config", "theme") // an absent key is store.ErrNotFound
	if err != nil || theme != "dark" {
		return errors.Join(err, errors.New(theme))
	}

	tenant, err := store.NewScopedWithQuota(st, "tenant-42", store.QuotaConfig{MaxKeys: 1000, MaxGroups: 10})
	if err != nil {
		return err
	}
	err = tenant.Set("config", "theme", "light") // the group tenant-42:config of st
	if errors.Is(err, store.ErrQuotaExceeded) {
		return err // and nothing was stored
	}

	if err := errors.Join(err, st.Set("account", "ada", "10")); err != nil {
		return err
	}
	err = st.Transaction(func(tx *store.Store) error {
		from, err := tx.Get("account", "ada")
		if err != nil {
			return err // nothing is done
		}
		return errors.Join(tx.Set("account", "bob", from), tx.Delete("account", "ada"))
	})
	if err != nil {
		return err
	}

	w := st.Watch("config", "*") // a group; a key of it; or "*", "*" for all
	defer st.Unwatch(w)

	stop := st.OnChange(func(e store.Event) {
		log.Println(e.Type, e.Group, e.Key) // it may use the store
	})
	defer stop()

	if err := st.Set("config", "theme", "dark"); err != nil {
		return err
	}
	if e := <-w.Ch; e.Type != store.EventSet || e.Key != "theme" || e.Value != "dark" {
		return errors.New("another event")
	}
	return nil
}
