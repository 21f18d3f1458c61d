package runtime_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// openOnce runs a node for a moment, with a turn.
func openOnce(t *testing.T, o runtime.Options) {
	t.Helper()
	rt, err := runtime.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := office.order.Call(t.Context(), office.typ.Ref(rt, "a"), order{}); err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
}

// A store whose manifest cannot be read is refused by its name, with the page that helps, whether data loss is accepted or not.
func TestManifestThatCannotBeReadIsNamedWithItsPage(t *testing.T) {
	dir := t.TempDir()
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{office.definition()}, Logger: slog.New(slog.DiscardHandler)}
	openOnce(t, options)
	manifests, err := filepath.Glob(filepath.Join(dir, "store", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, name := range manifests {
		if err := os.WriteFile(name, []byte("no manifest"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, accept := range []bool{false, true} {
		options.AcceptDataLoss = accept
		_, err := runtime.Open(t.Context(), options)
		if err == nil || !strings.Contains(err.Error(), "docs/operate/damaged-store.md") || !strings.Contains(err.Error(), "MANIFEST-0") ||
			accept == strings.Contains(err.Error(), "nothing of it was changed") {
			t.Errorf("accepted %t: %v", accept, err)
		}
	}
}

// A store that a newer version wrote is refused with the page that says what then.
func TestNewerStoreIsRefusedWithItsPage(t *testing.T) {
	dir := t.TempDir()
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{office.definition()}, Logger: slog.New(slog.DiscardHandler)}
	openOnce(t, options)
	const marker = "marker.format-version.000099.099"
	if err := os.WriteFile(filepath.Join(dir, "store", marker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), marker) || !strings.Contains(err.Error(), "docs/operate/back-up.md") {
		t.Error(err)
	}
	if _, err := runtime.Inspect(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "docs/operate/back-up.md") {
		t.Error(err)
	}
}

// A table that cannot be read is refused by its name, with the page that helps, also if only the start of the node reads it.
func TestTableThatCannotBeReadIsNamedWithItsPage(t *testing.T) {
	dir := t.TempDir()
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{office.definition()}, Logger: slog.New(slog.DiscardHandler)}
	for range 3 { // each start makes a table of the log
		openOnce(t, options)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "store", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[20] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runtime.Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), "docs/operate/damaged-store.md") || !strings.Contains(err.Error(), ".sst") {
		t.Error(err)
	}
}
