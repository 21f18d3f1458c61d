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

// golden compares bytes with a file, and returns its content.
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
	if err != nil || rec.Manifest.Workflow != "order" || rec.Manifest.Version != "v1" ||
		rec.Manifest.State != StateRunning || len(rec.Rows) != len(r.All()) {
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
		_, err := DecodeRecording([]byte(v))
		errorIf(t, !errors.As(err, &bad), "%s: %v", what, err)
	}
	_, err = DecodeRecording([]byte(strings.Replace(string(file), `"recording":1`, `"recording":2,"more":1`, 1)))
	errorIf(t, !errors.Is(err, ErrNewer), "format 2: %v", err)
	_, err = DecodeRecording(make([]byte, MaxRecording+1))
	errorIf(t, !errors.Is(err, ErrTooLarge), "%v", err)
	_, err = Export(newRows())
	errorIf(t, err != ErrNoRun, "%v", err)
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
			// With a matching end the checksum is no obstacle.
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
		_, _ = Import(&testTurn{rows: newRows(), now: at(0)}, rec, StartOptions{}) // it must not panic
	})
}

func TestImport(t *testing.T) {
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
	if err != nil || st.ID != started.ID || st.Pause != nil || st.Cancel != nil || st.Undo != 0 ||
		st.State != StateSleeping || count(turn.rows, 6) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	errorIf(t, !slices.Equal(paths(t, History(turn, Filter{})), paths(t, History(r, Filter{}))), "the history is another")
	for _, replace := range []bool{false, true} {
		_, err = Import(turn, rec, StartOptions{Replace: replace})
		errorIf(t, !errors.Is(err, ErrExists), "a run that lives: %v", err)
	}
	putState(turn, StateFailed)
	must(t, errOf(Import(turn, rec, StartOptions{Replace: true})))
	// Restore makes the same run.
	r, turn = sample(t), &testTurn{rows: newRows(), now: at(7)}
	putPause(r, &Pause{Reason: PausedDiverged})
	started, err = Import(turn, export(t, r), StartOptions{Restore: true})
	errorIf(t, err != nil || started.ID != "01"+strings.Repeat("00", 15) || !maps.Equal(turn.All(), r.All()), "%+v, %v", started, err)
	// A run of form 1 gets the fields that it lacked.
	form1 := export(t, newForm1Run(t))
	form1.Manifest.Workflow, form1.Manifest.Version = "order", "v0"
	turn = &testTurn{rows: newRows(), now: at(7)}
	must(t, errOf(Import(turn, form1, StartOptions{})))
	st, err = ReadStatus(turn)
	errorIf(t, err != nil || st.Workflow != "order" || st.ID == "" || st.Entries != 13, "%+v, %v", st, err)

	r = tree(t)
	for _, v := range []struct {
		what, says string
		rec        *Recording
		to         EntryID
	}{
		{"what has not ended", "has not ended", rec, r.id("serve~2/nap")},
		{"nothing", "no entry", rec, r.id("nowhere")},
		{"no id", "is none", rec, "zz"},
		{"a run that waits for a child", "kid", export(t, sample(t)), ""},
		{"no run", "no run", &Recording{}, ""},
		{"form 1 up to an entry", "form 1", form1, "14"},
	} {
		_, err := Import(&testTurn{rows: newRows()}, v.rec, StartOptions{UpTo: v.to})
		refused(t, v.what, err, v.says)
	}
}
