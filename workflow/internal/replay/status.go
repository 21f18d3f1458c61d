package replay

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// ErrNoRun is returned where there is no run.
var ErrNoRun = errors.New("workflow: there is no run")

// An EntryID names an entry of a history: its location in hexadecimal digits. It is the same as
// long as the entry is there.
type EntryID string

func entryID(loc journal.Location) EntryID { return EntryID(hex.EncodeToString(loc)) }

// location returns the location of an id: nil for "".
func (id EntryID) location() (journal.Location, error) {
	b, err := hex.DecodeString(string(id))
	if err == nil {
		_, err = journal.Location(b).Segments()
	}
	if err != nil {
		return nil, &ControlError{Verb: "find",
			Reason: "entry id " + quoteID(id) + " is none: ids are those that History returns"}
	}
	return b, nil
}

// A RunStatus says what a run does.
type RunStatus struct {
	ID       string `json:"id,omitempty"` // hexadecimal; "" for a run of form 1
	Workflow string `json:"workflow"`
	Version  string `json:"version,omitempty"`
	State    State  `json:"state"`
	// Epoch counts how often the run began anew: by Restart, or by a rewind.
	Epoch   uint32    `json:"epoch,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Waiting lists the events that the run waits for, Wake is the earliest time among them; zero
	// if it waits for no time.
	Waiting []Waiting `json:"waiting,omitempty"`
	Wake    time.Time `json:"wake,omitzero"`
	// Cancel is set if cancellation was requested.
	Cancel *CancelRequest `json:"cancel,omitempty"`
	Pause  *Pause         `json:"pause,omitempty"`
	// Failure is why it failed or was canceled; nil otherwise.
	Failure *Failure `json:"failure,omitempty"`
	// Published is the published value, Output the result of the run, both encoded by its codec:
	// CBOR if Codec is 0.
	Published []byte `json:"-" cbor:"published,omitempty"`
	Output    []byte `json:"-" cbor:"output,omitempty"`
	Codec     uint8  `json:"codec,omitempty"`
	// Input is the input of the run, encoded as they are.
	Input []byte `json:"-" cbor:"input,omitempty"`
	// InputJSON, PublishedJSON and OutputJSON are these payloads in JSON, after Show.
	InputJSON     json.RawMessage `json:"input,omitempty" cbor:"-"`
	PublishedJSON json.RawMessage `json:"published,omitempty" cbor:"-"`
	OutputJSON    json.RawMessage `json:"output,omitempty" cbor:"-"`
	// Entries counts the entries of the history, Bytes are those of their keys and values, Names
	// counts distinct names: a run whose Crowded is set has so many that it probably makes them
	// from data.
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
	Names   int   `json:"names"`
	Crowded bool  `json:"crowded,omitempty"`
	// Undo counts the steps that will be undone if the run fails, including running steps that may
	// have to be undone. It is 0 for a run that has completed.
	Undo int `json:"undo,omitempty"`
}

// A CancelRequest says when cancellation of a run was requested, and why.
type CancelRequest struct {
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time,omitzero"`
}

// A Waiting is one event that a run waits for.
type Waiting struct {
	ID   EntryID `json:"id"`
	Path string  `json:"path"` // of names; for people
	Kind Kind    `json:"kind"`
	// Since is the time at which the wait began, Until the time at which it ends by itself; zero
	// for never.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Queues are the queues that a receive waits for; Child is the actor of a child that the run
	// waits for.
	Queues []string     `json:"queues,omitempty"`
	Child  *Destination `json:"child,omitempty"`
	// Attempts counts the executions of a step that waits for the next one, Failure is the error of
	// the last one.
	Attempts uint32   `json:"attempts,omitempty"`
	Failure  *Failure `json:"failure,omitempty"`
}

// ReadOutcome is a cheaper ReadStatus for a run that is over.
func ReadOutcome(r Reader) (RunStatus, error) {
	_, st, err := readOutcome(r)
	return st, err
}

func readOutcome(r Reader) (*fields, RunStatus, error) {
	f, err := loadFields(r)
	if err != nil {
		return nil, RunStatus{}, err
	}
	if f.state == "" {
		return nil, RunStatus{}, ErrNoRun
	}
	st := RunStatus{
		Workflow: f.program, Version: f.version, State: f.state, Epoch: f.run.Epoch, Started: f.run.Started, Ended: f.run.Ended,
		Pause: f.pause, Failure: f.failure, Published: f.published, Output: f.output, Input: f.input, Codec: f.run.Codec,
	}
	if f.form == journal.Form2 {
		st.ID = hex.EncodeToString(f.run.ID[:])
	}
	if c := f.control; c != nil && c.Kind == controlCancel {
		st.Cancel = &CancelRequest{c.Reason, c.Time}
	}
	return f, st, nil
}

// ReadStatus returns the status of a run, as far as its rows say. The error is ErrNoRun, a
// *CorruptError, or one of r.
func ReadStatus(r Reader) (RunStatus, error) {
	f, st, err := readOutcome(r)
	if err != nil {
		return RunStatus{}, err
	}
	w := walk{r: r}
	busy := false
	for e, err := range w.entries(nil, nil) {
		if err != nil {
			return RunStatus{}, err
		}
		st.Entries++
		st.Bytes += int64(e.size)
		if e.peeked.Over() || f.state.Over() {
			continue
		}
		entry, err := e.decode()
		if err != nil {
			return RunStatus{}, err
		}
		if entry.Owed != 0 {
			st.Undo++
		}
		waits, ok, err := w.waiting(e, entry)
		if err != nil {
			return RunStatus{}, err
		}
		if ok {
			st.Waiting = append(st.Waiting, waits)
			if u := waits.Until; !u.IsZero() && (st.Wake.IsZero() || u.Before(st.Wake)) {
				st.Wake = u
			}
		} else if entry.Kind == KindStep {
			busy = true
		}
	}
	st.Names, st.Crowded = w.names.Len(), w.names.Crowded()
	start, end := keyspace.WorkflowMetadata.Range()
	if err := r.Scan(start, end,
		func(key, value []byte) error { st.Bytes += int64(len(key) + len(value)); return nil }); err != nil {
		return RunStatus{}, err
	}
	start, end = keyspace.WorkflowUndo.Range()
	if err := r.Scan(start, end, func(_, _ []byte) error { st.Undo++; return nil }); err != nil {
		return RunStatus{}, err
	}
	if f.state == StateCompleted {
		st.Undo = 0 // the recorded obligations are for a rewind
	}
	st.State = derive(f, &st, busy)
	return st, nil
}

// derive returns the state of the run, which may be derived from its history.
func derive(f *fields, st *RunStatus, busy bool) State {
	switch {
	case f.state.Over():
		return f.state
	case f.pause != nil:
		return StatePaused
	case f.state == StateRollingBack:
		return f.state
	case st.Cancel != nil:
		return StateCancelling
	case busy || len(st.Waiting) == 0 || f.state != StateRunning:
		return f.state
	}
	for _, w := range st.Waiting {
		if w.Kind != KindSleep && w.Kind != KindStep {
			return StateWaiting
		}
	}
	return StateSleeping
}

// waiting returns the wait of an entry that is not over. ok is false for containers and for steps
// that are being executed.
func (w *walk) waiting(e *walked, entry *Entry) (out Waiting, ok bool, err error) {
	out = Waiting{ID: entryID(e.loc), Path: w.names.Path(e.loc), Kind: entry.Kind,
		Since: entry.Created, Until: entry.Deadline}
	switch entry.Kind {
	case KindSleep, KindAwait, KindMessage, KindCall:
	case KindReceive:
		out.Queues = entry.Queues
	case KindSpawn:
		child := entry.Child
		out.Child = &child
	case KindStep:
		m, err := e.metadata(entry)
		if err != nil || m == nil || m.Due.IsZero() || entry.Status == Running {
			return out, false, err
		}
		out.Until, out.Attempts, out.Failure = m.Due, m.Attempts, m.Failure
	default:
		return out, false, nil
	}
	return out, true, nil
}
