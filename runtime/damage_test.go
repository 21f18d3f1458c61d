package runtime_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// A store whose manifest cannot be read is refused by its name, with the page that helps, whether data loss is accepted or not.
func TestManifestThatCannotBeReadIsNamedWithItsPage(t *testing.T) {
	dir := t.TempDir()
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{deskDefinition()}}
	rt, err := runtime.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
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
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{deskDefinition()}}
	rt, err := runtime.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
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
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{deskDefinition()}}
	for range 3 { // each start makes a table of the log
		rt, err := runtime.Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unlock.Call(t.Context(), desks.Ref(rt, "a"), actor.None{}); err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
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
