package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/workflow/internal/form1"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A State is the state of a whole run.
type State string

const (
	StatePending     State = "pending" // started, and nothing has run yet
	StateRunning     State = "running"
	StateSleeping    State = "sleeping" // derived: waits only for a time
	StateWaiting     State = "waiting"  // derived: waits for a message, a condition or a child
	StatePaused      State = "paused"   // derived: see Pause
	StateCancelling  State = "cancelling"
	StateRollingBack State = "rolling_back" // undo handlers run, and then it is failed or cancelled
	StateCompleted   State = "completed"
	StateFailed      State = "failed"
	StateCancelled   State = "cancelled"
	StateTerminated  State = "terminated"
)

// Over reports whether the state is final.
func (s State) Over() bool {
	switch s {
	case StateCompleted, StateFailed, StateCancelled, StateTerminated:
		return true
	}
	return false
}

// A PauseReason says why a run is paused.
type PauseReason string

const (
	PausedDiverged  PauseReason = "diverged"         // the code has another operation than the history
	PausedMisuse    PauseReason = "misuse"           // the code breaks a rule of the package
	PausedPanicked  PauseReason = "panicked"         // outside of a step
	PausedUnknown   PauseReason = "unknown_workflow" // the program is not registered
	PausedCorrupt   PauseReason = "corrupt"          // a row cannot be read
	PausedCrashing  PauseReason = "crashing"         // the process ends each time the run goes on
	PausedOperator  PauseReason = "operator"         // see Hold
	PausedExhausted PauseReason = "exhausted"        // a step has used up its attempts, with PauseRun
)

// PauseReasons returns the reasons for which a run can be paused.
func PauseReasons() []PauseReason {
	return []PauseReason{PausedDiverged, PausedMisuse, PausedPanicked, PausedUnknown, PausedCorrupt,
		PausedCrashing, PausedOperator, PausedExhausted}
}

// A Pause says why a run does not go on.
type Pause struct {
	Reason PauseReason `json:"reason"`
	// Text explains it to people; for a divergence it is the report.
	Text string `json:"text,omitempty"`
	// Since is when the run was paused first.
	Since time.Time `json:"since"`
	// Attempts counts how often the run was tried again; Next is the time of the next try without
	// an operator, zero for none.
	Attempts uint32    `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"`
}

// A runRecord is the data of a run besides its history: the field FieldRun.
type runRecord struct {
	ID [16]byte // random
	// Epoch counts how often the run began anew: by Restart, or by a rewind. It is part of
	// idempotency keys.
	Epoch   uint32
	Started time.Time // when the run was started
	Ended   time.Time // zero while it lasts
	// Boots counts the cold starts since the resolution SeqAtBoot was the last one.
	Boots     uint32
	SeqAtBoot uint64
	// Entered counts the processes in a row that ran the function and may have ended by that,
	// EnteredIn names the last: see Run.Enter.
	Entered   uint32
	EnteredIn uint64
	// Codec is the Entry.Codec of input, output and published value.
	Codec uint8
	// Rewinds counts how many of the epochs began by a rewind.
	Rewinds uint32
	// Seed seeds the random numbers instead of ID and Epoch, where these have changed since the
	// history began: after a rewind, and in a fork. 0 if they have not.
	Seed uint64
	// Kept is set if the obligations of a completed run are still on record: a rewind needs them.
	Kept bool
	// Parent is nil for a run that no other run started.
	Parent *parentRef
}

// randomSeed returns the seed of the random numbers of the run's function.
func (r *runRecord) randomSeed() uint64 {
	if r.Seed != 0 {
		return r.Seed
	}
	return fnv(fnv(fnvOffset, r.ID[:]), binary.BigEndian.AppendUint32(nil, r.Epoch))
}

// A parentRef says which run started a child.
type parentRef struct {
	To       Destination
	Run      [16]byte         // id of the parent's run
	Location journal.Location // of its Spawn
	Policy   uint8            // how the child is ended if the parent ends before it
}

// A control is a request to a run.
type control struct {
	Kind   string // "cancel"
	Reason string
	Time   time.Time
	// Seq is the number of the resolution with which the run handled the request; 0 before.
	Seq uint64
}

// A numbered row is a row of the undo obligations or of the inbox, with its value encoded.
type numbered struct {
	n     uint64
	value []byte
}

// fields are the data of the run's rows besides the history.
type fields struct {
	state     State // "" if there is no run
	program   string
	version   string
	input     []byte
	output    []byte
	failure   *Failure
	published []byte
	control   *control
	pause     *Pause
	run       runRecord
	// form is 1 for a run of another engine, which has no run record.
	form uint16
}

// The rows of records as CBOR. Times are Unix ms.
type (
	runRow struct {
		ID        []byte     `cbor:"1,keyasint"`
		Epoch     uint32     `cbor:"2,keyasint,omitempty"`
		Started   int64      `cbor:"3,keyasint"`
		Ended     int64      `cbor:"4,keyasint,omitempty"`
		Boots     uint32     `cbor:"5,keyasint,omitempty"`
		SeqAtBoot uint64     `cbor:"6,keyasint,omitempty"`
		Codec     uint8      `cbor:"7,keyasint,omitempty"`
		Parent    *parentRow `cbor:"8,keyasint,omitempty"`
		Seed      uint64     `cbor:"9,keyasint,omitempty"`
		Rewinds   uint32     `cbor:"10,keyasint,omitempty"`
		Entered   uint32     `cbor:"11,keyasint,omitempty"`
		EnteredIn uint64     `cbor:"12,keyasint,omitempty"`
		Kept      bool       `cbor:"13,keyasint,omitempty"`
	}
	parentRow struct {
		To       Destination `cbor:"1,keyasint"`
		Run      []byte      `cbor:"2,keyasint"`
		Location []byte      `cbor:"3,keyasint"`
		Policy   uint8       `cbor:"4,keyasint,omitempty"`
	}
	controlRow struct {
		Kind   string `cbor:"1,keyasint"`
		Reason string `cbor:"2,keyasint,omitempty"`
		At     int64  `cbor:"3,keyasint"`
		Seq    uint64 `cbor:"4,keyasint,omitempty"`
	}
	pauseRow struct {
		Reason   string `cbor:"1,keyasint"`
		Text     string `cbor:"2,keyasint,omitempty"`
		Since    int64  `cbor:"3,keyasint"`
		Attempts uint32 `cbor:"4,keyasint,omitempty"`
		Next     int64  `cbor:"5,keyasint,omitempty"`
	}
)

// appendRow appends the value of a record: the form, then deterministic CBOR.
func appendRow(dst []byte, row any) ([]byte, error) {
	b, err := rowEncoding.Marshal(row)
	if err != nil {
		return dst, fmt.Errorf("workflow: %T: %w", row, err)
	}
	return append(append(dst, journal.Form2, 0), b...), nil
}

// decodeRow is the inverse of appendRow. Unknown fields are an error that matches ErrNewer.
func decodeRow(key, value []byte, row any) error {
	form, err := journal.FormOf("record", value)
	switch {
	case err != nil:
		return journal.Corrupt(key, err)
	case form != journal.Form2:
		return journal.Corrupt(key, &SyntaxError{What: "record", Offset: 0, Reason: fmt.Sprintf("form %d", form)})
	}
	err = rowDecoding.Unmarshal(value[2:], row)
	if _, unknown := err.(*cbor.UnknownFieldError); unknown {
		err = journal.Newer("%T with unknown fields", row)
	}
	return journal.Corrupt(key, err)
}

// Both modes are made of constant options, which cannot fail, and are immutable.
var rowEncoding, rowDecoding = func() (cbor.EncMode, cbor.DecMode) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF,
		IndefLength: cbor.IndefLengthForbidden, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}()

// sixteen checks the length of a run id.
func sixteen(key, b []byte) (id [16]byte, err error) {
	if len(b) != len(id) {
		return id, journal.Corrupt(key,
			&SyntaxError{What: "record", Offset: 2, Reason: fmt.Sprintf("run id of %d bytes", len(b))})
	}
	return [16]byte(b), nil
}

func putField(j Journal, f keyspace.Field, value []byte) error {
	var key [8]byte
	return j.Put(journal.FieldKey(key[:0], f), value)
}

func deleteField(j Journal, f keyspace.Field) error {
	var key [8]byte
	return j.Delete(journal.FieldKey(key[:0], f))
}

func putFieldRow(j Journal, f keyspace.Field, row any) error {
	value, err := appendRow(nil, row)
	if err != nil {
		return err
	}
	return putField(j, f, value)
}

// putState writes the state word.
func putState(j Journal, s State) error { return putField(j, keyspace.FieldState, []byte(s)) }

// putProgram writes the name and the version of the workflow.
func putProgram(j Journal, name, version string) error {
	return putField(j, keyspace.FieldVersion, tuple.AppendString(tuple.AppendString(nil, name), version))
}

// putInput writes the input of the run.
func putInput(j Journal, input []byte) error { return putField(j, keyspace.FieldInput, input) }

// putOutput writes the result of the run.
func putOutput(j Journal, output []byte) error { return putField(j, keyspace.FieldOutput, output) }

// putPublished writes the published value of the run.
func putPublished(j Journal, value []byte) error { return putField(j, keyspace.FieldPublished, value) }

// putFailure writes the error of the run.
func putFailure(j Journal, f *Failure) error {
	return putField(j, keyspace.FieldError, journal.AppendFailure([]byte{journal.Form2, 0}, f, nil))
}

// putRecord writes the run record.
func putRecord(j Journal, r *runRecord) error {
	row := runRow{ID: r.ID[:], Epoch: r.Epoch, Started: journal.Millis(r.Started),
		Ended: journal.Millis(r.Ended), Boots: r.Boots, SeqAtBoot: r.SeqAtBoot, Codec: r.Codec, Seed: r.Seed, Rewinds: r.Rewinds, Entered: r.Entered, EnteredIn: r.EnteredIn, Kept: r.Kept}
	if p := r.Parent; p != nil {
		row.Parent = &parentRow{To: p.To, Run: p.Run[:], Location: p.Location, Policy: p.Policy}
	}
	return putFieldRow(j, keyspace.FieldRun, &row)
}

func decodeRecord(key, value []byte) (runRecord, error) {
	var row runRow
	if err := decodeRow(key, value, &row); err != nil {
		return runRecord{}, err
	}
	id, err := sixteen(key, row.ID)
	if err != nil {
		return runRecord{}, err
	}
	r := runRecord{ID: id, Epoch: row.Epoch, Started: journal.FromMillis(row.Started),
		Ended: journal.FromMillis(row.Ended), Boots: row.Boots, SeqAtBoot: row.SeqAtBoot, Codec: row.Codec, Seed: row.Seed, Rewinds: row.Rewinds, Entered: row.Entered, EnteredIn: row.EnteredIn, Kept: row.Kept}
	if p := row.Parent; p != nil {
		run, err := sixteen(key, p.Run)
		if err != nil {
			return runRecord{}, err
		}
		r.Parent = &parentRef{To: p.To, Run: run, Location: p.Location, Policy: p.Policy}
	}
	return r, nil
}

// putControl writes a request to the run.
func putControl(j Journal, c *control) error {
	return putFieldRow(j, keyspace.FieldControl, &controlRow{c.Kind, c.Reason, journal.Millis(c.Time), c.Seq})
}

func decodeControl(key, value []byte) (*control, error) {
	var row controlRow
	if err := decodeRow(key, value, &row); err != nil {
		return nil, err
	}
	return &control{row.Kind, row.Reason, journal.FromMillis(row.At), row.Seq}, nil
}

// putPause writes that the run is paused.
func putPause(j Journal, p *Pause) error {
	return putFieldRow(j, keyspace.FieldPause,
		&pauseRow{string(p.Reason), p.Text, journal.Millis(p.Since), p.Attempts, journal.Millis(p.Next)})
}

// deletePause removes the row of putPause.
func deletePause(j Journal) error { return deleteField(j, keyspace.FieldPause) }

func decodePause(key, value []byte) (*Pause, error) {
	var row pauseRow
	if err := decodeRow(key, value, &row); err != nil {
		return nil, err
	}
	return &Pause{Reason: PauseReason(row.Reason), Text: row.Text,
		Since: journal.FromMillis(row.Since), Attempts: row.Attempts, Next: journal.FromMillis(row.Next)}, nil
}

// obligationKey appends the key of an undo obligation.
func obligationKey(dst []byte, n uint64) []byte { return keyspace.WorkflowUndo.Append(dst, n) }

// inboxKey appends the key of a message in the inbox.
func inboxKey(dst []byte, n uint64) []byte { return keyspace.WorkflowMessage.Append(dst, n) }

// loadInbox reads the waiting messages, by number.
func loadInbox(r Reader) (list []numbered, err error) {
	start, end := keyspace.WorkflowMessage.Range()
	err = r.Scan(start, end, func(key, value []byte) error {
		n, err := keyspace.WorkflowMessage.Parse(key)
		list = append(list, numbered{n, bytes.Clone(value)})
		return journal.Corrupt(key, err)
	})
	return list, err
}

// set decodes one row of the family of fields. It keeps value.
func (f *fields) set(key, value []byte) (err error) {
	field, err := keyspace.WorkflowField.Parse(key)
	if err != nil {
		return journal.Corrupt(key, err)
	}
	switch field {
	case keyspace.FieldState:
		switch s := State(value); s {
		case StatePending, StateRunning, StateRollingBack, StateCompleted, StateFailed, StateCancelled, StateTerminated:
			f.state = s
		case StateSleeping: // a word of form 1
			f.state = StateRunning
		default:
			err = journal.Newer("state %q", value)
		}
	case keyspace.FieldOutput:
		f.output = value
	case keyspace.FieldError:
		f.failure, err = decodeRunFailure(value)
	case keyspace.FieldVersion:
		d := tuple.NewDecoder(value)
		if f.program, err = d.String(); err == nil {
			if f.version, err = d.String(); err == nil {
				err = d.End()
			}
		}
	case keyspace.FieldInput:
		f.input = value
	case keyspace.FieldControl:
		f.control, err = decodeControl(key, value)
	case keyspace.FieldRun:
		f.run, err = decodeRecord(key, value)
		f.form = journal.Form2
	case keyspace.FieldPublished:
		f.published = value
	case keyspace.FieldPause:
		f.pause, err = decodePause(key, value)
	}
	return journal.Corrupt(key, err)
}

// decodeRunFailure reads the field error in either form.
func decodeRunFailure(value []byte) (*Failure, error) {
	if len(value) < 2 || binary.LittleEndian.Uint16(value) != journal.Form2 {
		return form1.DecodeFailure(value)
	}
	r := journal.Decoder{What: "error", B: value, Off: 2}
	f := r.Failure(nil, false)
	return f, r.End()
}

// loadFields reads the rows of the run besides the history.
func loadFields(r Reader) (*fields, error) {
	f := &fields{form: journal.Form1}
	start, end := keyspace.WorkflowField.Range()
	err := r.Scan(start, end, func(key, value []byte) error { return f.set(key, append([]byte(nil), value...)) })
	if err != nil {
		return nil, err
	}
	return f, nil
}
