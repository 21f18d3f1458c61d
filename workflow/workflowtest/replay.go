package workflowtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// Replay replays a recorded run with a program, and fails the test if they do not agree: the
// function calls other operations than the history has, or returns another result than the run. It
// executes no step and writes nothing. Programs besides d are those of WithPrograms; other options
// have no effect.
func Replay[In, Out any](t testing.TB, d *workflow.Function[In, Out], rec *wfhost.Recording, opts ...Option) {
	t.Helper()
	if problem := replayed(d.Program(), rec, opts); problem != nil {
		t.Errorf("the recorded run of %q (version %q) does not replay: %v", rec.Manifest.Workflow,
			rec.Manifest.Version, problem)
	}
}

// ReplayDir is Replay for all recordings in files whose paths match a pattern (see filepath.Glob).
// It fails the test if there is none. Keep a folder of recordings for each released version:
// testdata/v1/*.rec, testdata/v2/*.rec.
func ReplayDir[In, Out any](t testing.TB, d *workflow.Function[In, Out], pattern string, opts ...Option) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	if len(files) == 0 {
		t.Fatalf("there is no recording %s", pattern)
	}
	for _, file := range files {
		rec := Load(t, file)
		if problem := replayed(d.Program(), rec, opts); problem != nil {
			t.Errorf("%s: the recorded run of %q (version %q) does not replay: %v", file,
				rec.Manifest.Workflow, rec.Manifest.Version, problem)
		}
	}
}

func replayed(p *wfhost.Program, rec *wfhost.Recording, opts []Option) error {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if err := p.Err(); err != nil {
		return err
	}
	rows := memory.Recorded(rec)
	report, err := wfhost.Replay(rows, func(name string) *wfhost.Program {
		for _, other := range append([]*wfhost.Program{p}, o.programs...) {
			if other.Name() == name || name == "" { // histories of form 1 do not name their workflow
				return other
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case report.Problem != nil:
		return errors.New(report.Problem.Text)
	}
	s, err := wfhost.ReadStatus(rows)
	if err != nil {
		return err
	}
	return agree(p, &s, &report)
}

// agree compares the result of the function with the result of the run.
func agree(p *wfhost.Program, s *wfhost.RunStatus, report *wfhost.Report) error {
	switch s.State {
	case wfhost.StateCompleted, wfhost.StateFailed, wfhost.StateCancelled:
	default:
		return nil
	}
	if !report.Ended {
		return errors.New("the run was " + string(s.State) +
			", and the function goes on to something that the history does not have")
	}
	switch {
	case s.State == wfhost.StateCancelled: // with any result of the function
	case s.Failure != nil && report.Failure == nil:
		return errors.New("the run failed, and the function now returns " + show(report.Output) +
			": " + s.Failure.Message)
	case s.Failure == nil && report.Failure != nil:
		return errors.New("the run returned " + show(s.Output) + ", and the function now fails: " +
			report.Failure.Message)
	case s.Failure != nil && s.Failure.Message != report.Failure.Message:
		return errors.New("the run failed with: " + s.Failure.Message +
			"\nthe function now fails with: " + report.Failure.Message)
	case s.Failure == nil && !sameValue(p, s.Output, report.Output):
		return errors.New("the run returned " + show(s.Output) + ", and the function now returns " +
			show(report.Output))
	}
	return nil
}

// sameValue reports whether two encoded outputs of a program have the same value. Old encodings may
// differ from current ones.
func sameValue(p *wfhost.Program, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var again [2][]byte
	for i, data := range [][]byte{a, b} {
		var v any
		if err := p.DecodeOutput(data, &v); err != nil {
			return false
		}
		var err error
		if again[i], err = p.EncodeInput(v); err != nil {
			return false
		}
	}
	return bytes.Equal(again[0], again[1])
}

// RecordVariable is the environment variable that makes Record write files.
const RecordVariable = "CAIRN_RECORD"

// Record keeps a recording in a file. It leaves an existing file as it is, because that belongs to
// a released version: use a new folder for each. If the file is missing, Record writes it, with its
// folders, if RecordVariable is set in the environment; otherwise it fails the test.
func Record(t testing.TB, file string, rec *wfhost.Recording) {
	t.Helper()
	_, err := os.Stat(file)
	switch {
	case err == nil:
		return
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	case os.Getenv(RecordVariable) == "":
		t.Errorf("there is no recording %s; with %s=1 in the environment the test writes it", file, RecordVariable)
		return
	}
	data, err := rec.Encode()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o777)
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded %s", file)
}

// Load reads a recording from a file, written by Record or by an operator's export.
func Load(t testing.TB, file string) *wfhost.Recording {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := wfhost.DecodeRecording(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return rec
}
