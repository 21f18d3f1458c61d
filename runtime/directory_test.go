package runtime_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// The pages that the errors of an unusable directory and an unreadable store name.
const (
	directoryPage = "docs/operate/start.md#the-data-directory"
	damagePage    = "docs/operate/damaged-store.md"
	versionPage   = "docs/operate/back-up.md"
)

// openOnce runs a node for a moment, with a turn.
func openOnce(t *testing.T, o runtime.Options) {
	t.Helper()
	rt, err := runtime.Open(t.Context(), o)
	must(t, err)
	touch(t, rt)
	must(t, rt.Close())
}

// wantTexts fails the test unless an error has all the texts.
func wantTexts(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		errorIf(t, err == nil || !strings.Contains(err.Error(), text), "%s: %v, want %q", what, err, text)
	}
}

// rewrite changes the files of a store that match.
func rewrite(t *testing.T, dir, pattern string, change func(b []byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "store", pattern))
	fatalIf(t, err != nil || len(files) == 0, "%s: %q, %v", pattern, files, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(name, change(b), 0o600))
	}
}

func TestDirectoryThatCannotBeUsedIsNamedWithItsPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	used, closed, occupied := t.TempDir(), filepath.Join(t.TempDir(), "closed"), t.TempDir()
	rt := openDir(t, used, office.definition())
	defer rt.Close()
	must(t, os.Mkdir(closed, 0o500))
	must(t, os.WriteFile(filepath.Join(occupied, "store"), nil, 0o600))
	for what, dir := range map[string]string{
		"in use by another node":   used,
		"a file":                   file,
		"a file above":             filepath.Join(file, "data"),
		"a file in the place of":   occupied,
		"no permission":            closed,
		"no permission to make it": filepath.Join(closed, "data"),
		"missing":                  filepath.Join(t.TempDir(), "missing"),
	} {
		if strings.HasPrefix(what, "no permission") && (os.Getuid() == 0 || goruntime.GOOS == "windows") {
			continue
		}
		_, err := runtime.Inspect(t.Context(), dir)
		wantTexts(t, "inspecting, "+what, err, dir, directoryPage)
		if what != "missing" { // a node creates it
			_, err := runtime.Open(t.Context(), deskOptions(dir))
			wantTexts(t, what, err, dir, directoryPage)
			errorIf(t, dir == used && !errors.Is(err, engine.ErrLocked), "%s: %v", what, err)
		}
	}
}

func TestManifestThatCannotBeReadIsNamedWithItsPage(t *testing.T) {
	options := deskOptions(t.TempDir())
	openOnce(t, options)
	rewrite(t, options.Dir, "MANIFEST-*", func([]byte) []byte { return []byte("no manifest") })
	for _, accept := range []bool{false, true} {
		options.AcceptDataLoss = accept
		_, err := runtime.Open(t.Context(), options)
		wantTexts(t, "manifest", err, "MANIFEST-0", damagePage)
		errorIf(t, accept == strings.Contains(err.Error(), "nothing of it was changed"), "accepted %t: %v", accept, err)
	}
}

func TestNewerStoreIsRefusedWithItsPage(t *testing.T) {
	options := deskOptions(t.TempDir())
	openOnce(t, options)
	const marker = "marker.format-version.000099.099"
	must(t, os.WriteFile(filepath.Join(options.Dir, "store", marker), nil, 0o600))
	_, err := runtime.Open(t.Context(), options)
	wantTexts(t, "open", err, marker, versionPage)
	_, err = runtime.Inspect(t.Context(), options.Dir)
	wantTexts(t, "inspect", err, marker, versionPage)
}

// The error also names a table that only the start of the node reads.
func TestTableThatCannotBeReadIsNamedWithItsPage(t *testing.T) {
	options := deskOptions(t.TempDir())
	for range 3 { // each start makes a table of the log
		openOnce(t, options)
	}
	rewrite(t, options.Dir, "*.sst", func(b []byte) []byte { b[20] ^= 1; return b })
	_, err := runtime.Open(t.Context(), options)
	wantTexts(t, "table", err, ".sst", damagePage)
}

func TestDataDirectoryThatOthersCanLookIntoIsWarnedAbout(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("no modes of files")
	}
	var log bytes.Buffer
	options := deskOptions(filepath.Join(t.TempDir(), "data"))
	options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	openOnce(t, options)
	openOnce(t, options)
	fatalIf(t, strings.Contains(log.String(), "chmod"), "a private directory is warned about: %s", &log)
	store := filepath.Join(options.Dir, "store")
	file := filepath.Join(store, "left-by-hand")
	must(t, os.WriteFile(file, nil, 0o600))
	for path, mode := range map[string]fs.FileMode{options.Dir: 0o755, store: 0o750, file: 0o644} {
		before, err := os.Stat(path)
		must(t, err)
		must(t, os.Chmod(path, mode))
		log.Reset()
		openOnce(t, options)
		var lines []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "chmod") {
				lines = append(lines, line)
			}
		}
		fatalIf(t, len(lines) != 1, "%s of mode %v: %q", path, mode, lines)
		for _, want := range []string{path, mode.String(), "chmod -R go= " + options.Dir} {
			errorIf(t, !strings.Contains(lines[0], want), "%s of mode %v: %q, want %q", path, mode, lines, want)
		}
		must(t, os.Chmod(path, before.Mode().Perm()))
	}
}
