package replay

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// MaxRecording is the maximum size of the file of a recording, in bytes.
const MaxRecording = 256 << 20

// A Recording is all rows of a run at one time, and their origin.
type Recording struct {
	Manifest Manifest
	Rows     []Row // by key, which is unique
}

// A Manifest describes the origin of a recording.
type Manifest struct {
	// Recording is the version of the file's format: 1.
	Recording int       `json:"recording"`
	Workflow  string    `json:"workflow"`
	Version   string    `json:"version,omitempty"` // of the workflow
	Run       string    `json:"run,omitempty"`     // id of the run, hexadecimal
	State     State     `json:"state"`
	Build     string    `json:"build,omitempty"` // of the program that made it
	Time      time.Time `json:"time,omitzero"`   // when it was made
}

// A Row is one row of a run.
type Row struct{ Key, Value []byte }

// recordingFormat is the Manifest.Recording that Encode writes.
const recordingFormat = 1

// Export returns a recording of a run. Its time is for the caller to set. The error is ErrNoRun, a
// *CorruptError, or one of r.
func Export(r Reader) (*Recording, error) {
	f, err := loadFields(r)
	switch {
	case err != nil:
		return nil, err
	case f.state == "":
		return nil, ErrNoRun
	}
	rec := &Recording{Manifest: Manifest{Recording: recordingFormat, Workflow: f.program,
		Version: f.version, State: f.state, Build: build()}}
	if f.form == journal.Form2 {
		rec.Manifest.Run = hex.EncodeToString(f.run.ID[:])
	}
	start, end := keyspace.KindWorkflow.Range()
	size := 0
	err = r.Scan(start, end, func(key, value []byte) error {
		if size += 2*len(key) + len(value)*4/3; size > MaxRecording {
			return &TooLargeError{What: "the recording", Size: int64(size), Limit: MaxRecording}
		}
		rec.Rows = append(rec.Rows, Row{bytes.Clone(key), bytes.Clone(value)})
		return nil
	})
	return rec, err
}

// build returns the module and the version of this program.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	s := info.Main.Path + "@" + info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			s += " " + setting.Value
		}
	}
	return s
}

// The lines of a recording's file after the first.
type (
	rowLine struct {
		Key   string `json:"key"`          // hexadecimal
		Is    string `json:"is,omitempty"` // the key for people; not read
		Value string `json:"value"`        // base64
	}
	endLine struct {
		Rows   int    `json:"rows"`
		SHA256 string `json:"sha256"` // of all lines before
	}
)

// Encode returns the file of the recording. The error is a *TooLargeError.
func (rec *Recording) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&rec.Manifest); err != nil {
		return nil, fmt.Errorf("workflow: manifest of a recording: %w", err)
	}
	for _, row := range rec.Rows {
		line := rowLine{hex.EncodeToString(row.Key), keyspace.Format(row.Key),
			base64.StdEncoding.EncodeToString(row.Value)}
		if err := e.Encode(&line); err != nil {
			return nil, fmt.Errorf("workflow: recording: %w", err)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	if err := e.Encode(&endLine{len(rec.Rows), hex.EncodeToString(sum[:])}); err != nil {
		return nil, fmt.Errorf("workflow: recording: %w", err)
	}
	if b.Len() > MaxRecording {
		return nil, &TooLargeError{What: "the recording", Size: int64(b.Len()), Limit: MaxRecording}
	}
	return b.Bytes(), nil
}

// DecodeRecording reads the file of a recording.
func DecodeRecording(file []byte) (*Recording, error) {
	if len(file) > MaxRecording {
		return nil, &TooLargeError{What: "the recording", Size: int64(len(file)), Limit: MaxRecording}
	}
	d := &recordingDecoder{sum: sha256.New(), rec: &Recording{}}
	lines := bufio.NewReader(bytes.NewReader(file))
	for !d.ended {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, d.fail("ends before its last line")
		}
		if err := d.line(line); err != nil {
			return nil, err
		}
		d.offset += len(line)
	}
	if d.offset < len(file) {
		return nil, d.fail("lines after the last")
	}
	return d.rec, nil
}

type recordingDecoder struct {
	rec    *Recording
	sum    hash.Hash
	offset int
	ended  bool
}

func (d *recordingDecoder) fail(reason string) error {
	return &SyntaxError{What: "recording", Offset: d.offset, Reason: reason}
}

// line decodes one line, which ends in a newline.
func (d *recordingDecoder) line(line []byte) error {
	strict := func(v any) error {
		j := json.NewDecoder(bytes.NewReader(line))
		j.DisallowUnknownFields()
		err := j.Decode(v)
		if err == nil && int(j.InputOffset()) != len(line)-1 {
			err = errors.New("more than one object")
		}
		if err != nil {
			return d.fail(err.Error())
		}
		return nil
	}
	switch {
	case d.offset == 0:
		var version struct {
			Recording int `json:"recording"`
		}
		if err := json.Unmarshal(line, &version); err != nil || version.Recording < 1 {
			return d.fail("is no manifest of a recording")
		}
		if version.Recording > recordingFormat {
			return journal.Newer("recording of format %d", version.Recording)
		}
		if err := strict(&d.rec.Manifest); err != nil {
			return err
		}
	case bytes.HasPrefix(line, []byte(`{"key"`)):
		var row rowLine
		if err := strict(&row); err != nil {
			return err
		}
		key, err := hex.DecodeString(row.Key)
		if err != nil {
			return d.fail("key: " + err.Error())
		}
		if err := keyspace.KindWorkflow.Check(key); err != nil {
			return d.fail(err.Error())
		}
		value, err := base64.StdEncoding.Strict().DecodeString(row.Value)
		if err != nil || strings.ContainsAny(row.Value, "\r\n") {
			return d.fail("value is not base64")
		}
		if n := len(d.rec.Rows); n > 0 && bytes.Compare(d.rec.Rows[n-1].Key, key) >= 0 {
			return d.fail("rows are not in order")
		}
		d.rec.Rows = append(d.rec.Rows, Row{key, value})
	default:
		var end endLine
		if err := strict(&end); err != nil {
			return err
		}
		if end.Rows != len(d.rec.Rows) || end.SHA256 != hex.EncodeToString(d.sum.Sum(nil)) {
			return d.fail("is not what its checksum is of")
		}
		d.ended = true
	}
	d.sum.Write(line)
	return nil
}

// Import makes a run of a recording.
func Import(t Turn, rec *Recording, o StartOptions) (Started, error) {
	f, err := loadFields(t)
	if err != nil {
		return Started{}, err
	}
	if f.state != "" && !(o.Replace && f.state.Over()) {
		return Started{}, ErrExists
	}
	if err := eraseRun(t); err != nil {
		return Started{}, err
	}
	for _, row := range rec.Rows {
		if err := t.Put(row.Key, row.Value); err != nil {
			return Started{}, err
		}
	}
	im, err := loadImage(t)
	switch {
	case err != nil:
		return Started{}, err
	case im.state == "":
		return Started{}, &ControlError{"import", "the recording has no run"}
	case o.Restore:
		return Started{ID: hex.EncodeToString(im.run.ID[:]), Started: true}, nil
	}
	if im.run, err = im.run.fork(t, o); err != nil {
		return Started{}, err
	}
	if im.program == "" && rec.Manifest.Workflow != "" { // form 1 does not say
		if err := putProgram(t, rec.Manifest.Workflow, rec.Manifest.Version); err != nil {
			return Started{}, err
		}
	}
	if err := disown(t, im); err != nil {
		return Started{}, err
	}
	im.obligations = nil
	if o.UpTo != "" {
		if err := upTo(t, im, o.UpTo); err != nil {
			return Started{}, err
		}
		if im, err = loadImage(t); err != nil {
			return Started{}, err
		}
	}
	for i := range im.records {
		e, err := im.records[i].header()
		if err != nil {
			return Started{}, err
		}
		if e.Kind == KindSpawn && !e.Status.Over() && e.Child.Type != "" {
			return Started{},
				&ControlError{"import",
					"it waits for child " + im.names.Path(im.records[i].loc) + ", which would answer the recorded run"}
		}
	}
	return Started{ID: hex.EncodeToString(im.run.ID[:]), Started: true}, nil
}

// fork returns the record of a run that continues the history of another one.
func (r runRecord) fork(t Turn, o StartOptions) (runRecord, error) {
	// no obligations
	run := runRecord{ID: o.ID, Epoch: r.Epoch, Rewinds: r.Rewinds, Started: r.Started,
		Ended: r.Ended, Codec: r.Codec, Parent: o.parent, Seed: r.randomSeed(), Kept: !r.Ended.IsZero()}
	if run.ID == ([16]byte{}) {
		rand.Read(run.ID[:])
	}
	if run.Started.IsZero() {
		run.Started = t.Now()
	}
	return run, putRecord(t, &run)
}

// disown removes the rows of a run that concern only the recorded one.
func disown(t Turn, im *image) error {
	var errs []error
	for _, family := range []func() (start, end []byte){keyspace.WorkflowUndo.Range, keyspace.WorkflowMessage.Range} {
		start, end := family()
		errs = append(errs, t.DeleteRange(start, end))
	}
	errs = append(errs, deletePause(t))
	if im.control != nil && im.control.Seq == 0 { // otherwise its history has it
		errs = append(errs, deleteField(t, keyspace.FieldControl))
	}
	return errors.Join(append(errs, disownSteps(t, im))...)
}

// disownSteps removes the duty to undo from the steps under way of the recorded run.
func disownSteps(t Turn, im *image) error {
	st, err := newStore(im, 0)
	if err != nil {
		return err
	}
	for i := range im.records {
		e, err := im.records[i].header()
		if err != nil {
			return err
		}
		if e.Owed == 0 {
			continue
		}
		e.Owed = 0
		if _, err := st.put(t, im.records[i].loc, e); err != nil {
			return err
		}
	}
	return nil
}

// upTo removes all changes after the end of an entry.
func upTo(t Turn, im *image, id EntryID) error {
	loc, err := id.location()
	if err != nil {
		return err
	}
	rec := im.find(loc)
	switch {
	case rec == nil:
		return &ControlError{"import", im.missing(loc)}
	case rec.form == journal.Form1:
		return &ControlError{"import", "a history of form 1 goes on from its end only"}
	}
	return rewind(t, im, rec, "import", true)
}
