package runtime_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

const directoryPage = "docs/operate/start.md#the-data-directory"

// What refuses to open names the directory and the page that says what it must be like.
func TestDirectoryThatCannotBeUsedIsNamedWithItsPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used := t.TempDir()
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: used, Logger: slog.New(slog.DiscardHandler), Actors: []actor.Definition{office.definition()}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	occupied := t.TempDir()
	if err := os.WriteFile(filepath.Join(occupied, "store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{
		"in use by another node":   used,
		"a file":                   file,
		"a file above":             filepath.Join(file, "data"),
		"a file in the place of":   occupied,
		"no permission":            closed,
		"no permission to make it": filepath.Join(closed, "data"),
	} {
		if strings.HasPrefix(what, "no permission") && (os.Getuid() == 0 || goruntime.GOOS == "windows") {
			continue
		}
		_, err := runtime.Open(t.Context(), runtime.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), Actors: []actor.Definition{office.definition()}})
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), directoryPage) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := runtime.Inspect(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), directoryPage) {
			t.Errorf("inspecting, %s: %v", what, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := runtime.Inspect(t.Context(), missing); err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), directoryPage) {
		t.Errorf("inspecting what is not there: %v", err)
	}
}

func TestDataDirectoryThatOthersCanLookIntoIsWarnedAbout(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("no modes of files")
	}
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "data")
	options := runtime.Options{Dir: dir, Actors: []actor.Definition{office.definition()}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	openOnce(t, options)
	openOnce(t, options)
	if strings.Contains(log.String(), "chmod") {
		t.Fatalf("a private directory is warned about: %s", &log)
	}
	file := filepath.Join(dir, "store", "left-by-hand")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wide := range []struct {
		path string
		mode fs.FileMode
	}{{dir, 0o755}, {filepath.Join(dir, "store"), 0o750}, {file, 0o644}} {
		before, err := os.Stat(wide.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(wide.path, wide.mode); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		openOnce(t, options)
		var lines []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "chmod") {
				lines = append(lines, line)
			}
		}
		if len(lines) != 1 || !strings.Contains(lines[0], wide.path) || !strings.Contains(lines[0], wide.mode.String()) || !strings.Contains(lines[0], "chmod -R go= "+dir) {
			t.Errorf("%s of mode %v: %q", wide.path, wide.mode, lines)
		}
		if err := os.Chmod(wide.path, before.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}
