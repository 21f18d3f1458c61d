package replay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// golden compares bytes with a file, and returns what is in it.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	fatalIf(t, err != nil || !bytes.Equal(got, want), "%v\ngot\n%s\nwant\n%s", err, got, want)
	return want
}

func export(t testing.TB, r Reader) *Recording {
	t.Helper()
	rec, err := Export(r)
	must(t, err)
	rec.Manifest.Build, rec.Manifest.Time = "example@v1", at(0)
	return rec
}

func TestRecordingsAreTheDocumentedFile(t *testing.T) {
	r := newTestRun(t)
	r.put("charge", done(0, 1))
	r.put("nap", Entry{Kind: KindSleep, Ordinal: 1, Created: at(20), Deadline: at(5000)})
	got, err := export(t, r).Encode()
	must(t, err)
	want := golden(t, "recording.jsonl", got)
	rec, err := DecodeRecording(want)
	if err != nil || rec.Manifest.Workflow != "order" || rec.Manifest.Version != "v1" || rec.Manifest.State != StateRunning || len(rec.Rows) != len(r.All()) {
		t.Fatalf("%+v, %v", rec, err)
	}
	again, err := rec.Encode()
	errorIf(t, err != nil || !bytes.Equal(again, want), "it does not encode to the same")
}

func TestRecordingsThatAreNone(t *testing.T) {
	r := newTestRun(t)
	r.put("charge", done(0, 1))
	file, err := export(t, r).Encode()
	must(t, err)
	lines := strings.SplitAfter(string(file), "\n")
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for what, v := range map[string]string{
		"nothing":          "",
		"no newline":       strings.TrimSuffix(string(file), "\n"),
		"no end":           join(lines[:len(lines)-2]...),
		"a line missing":   join(append(slices.Clone(lines[:2]), lines[3:]...)...),
		"a line twice":     join(append(slices.Clone(lines[:2]), lines[1:]...)...),
		"lines swapped":    join(append([]string{lines[0], lines[2], lines[1]}, lines[3:]...)...),
		"more after it":    string(file) + lines[1],
		"a changed value":  strings.Replace(string(file), `"value":"`, `"value":"AAAA`, 1),
		"two in a line":    strings.Replace(string(file), "\n", "{}\n", 1),
		"unknown field":    strings.Replace(string(file), `{"recording"`, `{"x":1,"recording"`, 1),
		"format 0":         strings.Replace(string(file), `"recording":1`, `"recording":0`, 1),
		"another kind":     strings.Replace(string(file), `{"key":"07`, `{"key":"04`, 1),
		"key of digits":    strings.Replace(string(file), `{"key":"07`, `{"key":"zz`, 1),
		"value of symbols": strings.Replace(string(file), `"value":"`, `"value":"!`, 1),
	} {
		var bad *SyntaxError
		if _, err := DecodeRecording([]byte(v)); !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := DecodeRecording([]byte(strings.Replace(string(file), `"recording":1`, `"recording":2,"more":1`, 1))); !errors.Is(err, ErrNewer) {
		t.Errorf("format 2: %v", err)
	}
	if _, err := DecodeRecording(make([]byte, MaxRecording+1)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := Export(newRows()); err != ErrNoRun {
		t.Error(err)
	}
}

func FuzzDecodeRecording(f *testing.F) {
	r := newTestRun(f)
	r.put("charge", done(0, 1))
	file, err := export(f, r).Encode()
	must(f, err)
	f.Add(file)
	f.Add(file[:bytes.LastIndexByte(file[:len(file)-1], '\n')+1])
	f.Add([]byte(`{"recording":1}` + "\n" + `{"key":"0714","value":""}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := DecodeRecording(b)
		if err != nil {
			// With the end that belongs to it the checksum is no obstacle.
			lines := bytes.Count(b, []byte("\n")) - 1
			sum := sha256.Sum256(b)
			rec, err = DecodeRecording(fmt.Appendf(b[:len(b):len(b)], `{"rows":%d,"sha256":"%x"}`+"\n", lines, sum))
		}
		if err != nil {
			return
		}
		again, err := rec.Encode()
		must(t, err)
		if back, err := DecodeRecording(again); err != nil || len(back.Rows) != len(rec.Rows) {
			t.Fatalf("%v", err)
		}
		_, _ = Import(&testTurn{rows: newRows(), now: at(0)}, rec, StartOptions{}) // whatever it says, it does not panic
	})
}

func TestImportMakesAnotherRun(t *testing.T) {
	r := tree(t)
	putPause(r, &Pause{Reason: PausedDiverged})
	putControl(r, &control{Kind: controlCancel})
	r.Put(obligationKey(nil, 1), []byte("undo"))
	r.Put(inboxKey(nil, 1), []byte("in"))
	rec := export(t, r)
	turn := &testTurn{rows: newRows(), now: at(7)}
	started, err := Import(turn, rec, StartOptions{ID: [16]byte{5}})
	fatalIf(t, err != nil || !started.Started || started.ID != "05"+strings.Repeat("00", 15), "%+v, %v", started, err)
	st, err := ReadStatus(turn)
	if err != nil || st.ID != started.ID || st.Pause != nil || st.Cancel != nil || st.Undo != 0 || st.State != StateSleeping || count(turn.rows, 6) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	errorIf(t, !slices.Equal(paths(t, History(turn, Filter{})), paths(t, History(r, Filter{}))), "the history is another")
	if _, err := Import(turn, rec, StartOptions{}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := Import(turn, rec, StartOptions{Replace: true}); !errors.Is(err, ErrExists) {
		t.Errorf("a run that lives is replaced: %v", err)
	}
	putState(turn, StateFailed)
	if _, err := Import(turn, rec, StartOptions{Replace: true}); err != nil {
		t.Error(err)
	}
}

func TestImportRestoresARun(t *testing.T) {
	r := sample(t)
	putPause(r, &Pause{Reason: PausedDiverged})
	r.Put(obligationKey(nil, 1), []byte("undo"))
	rec := export(t, r)
	turn := &testTurn{rows: newRows(), now: at(7)}
	started, err := Import(turn, rec, StartOptions{Restore: true})
	errorIf(t, err != nil || started.ID != rec.Manifest.Run || !maps.Equal(turn.All(), r.All()), "%+v, %v", started, err)
}

func TestImportUpToNoEntry(t *testing.T) {
	r := tree(t)
	for to, says := range map[EntryID]string{r.id("serve~2/nap"): "has not ended", r.id("nowhere"): "no entry", "zz": "is none"} {
		_, err := Import(&testTurn{rows: newRows()}, export(t, r), StartOptions{UpTo: to})
		refused(t, string(to), err, says)
	}
}

func TestImportsThatAreRefused(t *testing.T) {
	_, err := Import(&testTurn{rows: newRows()}, export(t, sample(t)), StartOptions{})
	refused(t, "a run that waits for a child", err, "kid")
	_, err = Import(&testTurn{rows: newRows()}, &Recording{}, StartOptions{})
	refused(t, "nothing", err, "no run")
	rec := export(t, newForm1Run(t))
	rec.Manifest.Workflow, rec.Manifest.Version = "order", "v0"
	turn := &testTurn{rows: newRows(), now: at(7)}
	if _, err := Import(turn, rec, StartOptions{}); err != nil {
		t.Fatal(err)
	}
	if st, err := ReadStatus(turn); err != nil || st.Workflow != "order" || st.ID == "" || st.Entries != 13 {
		t.Errorf("%+v, %v", st, err)
	}
	_, err = Import(&testTurn{rows: newRows()}, rec, StartOptions{UpTo: "14"})
	refused(t, "form 1 up to an entry", err, "form 1")
}
