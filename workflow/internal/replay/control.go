package replay

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// This file has the operations on a run from outside. Each works within one transaction of the
// host, and runs no code of the user. The host notifies a Run in memory of them: see Run.

// ErrExists is the error of a start when the actor has another run.
var ErrExists = errors.New("workflow: there is a run already")

// A ControlError says why an operation on a run is refused.
type ControlError struct {
	Verb   string // such as "rewind"
	Reason string
}

func (e *ControlError) Error() string { return "workflow: cannot " + e.Verb + ": " + e.Reason }

// StartOptions are the options of a new run.
type StartOptions struct {
	// ID is the run's id; zero for a random one.
	ID [16]byte
	// Replace removes a run that has ended, with its history. A run that has not ended is not
	// replaced.
	Replace bool
	// UpTo is, for Import, the last entry of the recording that the new run gets: it continues from
	// there. "" for all.
	UpTo EntryID
	// Restore is, for Import: the run continues as the recorded run, not as a new one.
	Restore bool

	parent *parentRef
}

// Started is the result of a start.
type Started struct {
	ID string `json:"id"` // hexadecimal
	// Started is false if the run existed already.
	Started bool `json:"started"`
}

// controlCancel is the kind of the control that requests cancellation.
const controlCancel = "cancel"

// start writes the first rows of a run. If there is a run of the same workflow with the same input,
// ended or not, start changes nothing, unless the options name another id. The error is ErrExists,
// a *TooLargeError, or one of t.
func start(t Turn, name, version string, codec uint8, input []byte, o StartOptions) (Started, error) {
	if n := int64(len(input)); n > DefaultMaxPayload {
		return Started{}, &TooLargeError{What: "the input", Size: n, Limit: DefaultMaxPayload}
	}
	f, err := loadFields(t)
	if err != nil {
		return Started{}, err
	}
	if f.state != "" {
		replace := o.Replace && f.state.Over()
		switch {
		case !replace && f.program == name && bytes.Equal(f.input, input) && (o.ID == f.run.ID || o.ID == [16]byte{}):
			return Started{ID: hex.EncodeToString(f.run.ID[:])}, nil
		case !replace:
			return Started{}, ErrExists
		}
	}
	if err := eraseRun(t); err != nil {
		return Started{}, err
	}
	record := runRecord{ID: o.ID, Started: t.Now(), Codec: codec, Parent: o.parent}
	if record.ID == ([16]byte{}) {
		rand.Read(record.ID[:])
	}
	err = errors.Join(putState(t, StatePending), putProgram(t, name, version), putInput(t, input),
		putRecord(t, &record))
	return Started{ID: hex.EncodeToString(record.ID[:]), Started: true}, err
}

// eraseRun removes all rows of a run.
func eraseRun(j Journal) error {
	start, end := keyspace.KindWorkflow.Range()
	return j.DeleteRange(start, end)
}

// living reads the fields of a run, and refuses if there is no run or it is over.
func living(r Reader, verb string) (*fields, error) {
	f, err := loadFields(r)
	switch {
	case err != nil:
		return nil, err
	case f.state == "":
		return nil, ErrNoRun
	case f.state.Over():
		return nil, &ControlError{verb, "the run is " + string(f.state)}
	}
	return f, nil
}

// Cancel requests that the run ends.
func Cancel(t Turn, reason string) error {
	f, err := living(t, "cancel")
	if err != nil || f.control != nil {
		return err
	}
	return putControl(t, &control{Kind: controlCancel, Reason: reason, Time: t.Now()})
}

// Hold pauses the run until Resume. Running attempts of steps end, and their results are kept for
// then.
func Hold(t Turn, reason string) error {
	f, err := living(t, "pause")
	if err != nil || f.pause != nil && f.pause.Reason == PausedOperator {
		return err
	}
	return putPause(t, &Pause{Reason: PausedOperator, Text: reason, Since: t.Now()})
}

// Resume continues a paused run, regardless of why it was paused. If the reason is still there, the
// run is paused again.
func Resume(t Turn) error {
	f, err := living(t, "resume")
	switch {
	case err != nil:
		return err
	case f.pause == nil:
		return &ControlError{"resume", "the run is not paused"}
	}
	if f.form == journal.Form2 && (f.run.Boots != 0 || f.run.Entered != 0) {
		f.run.Boots, f.run.Entered, f.run.EnteredIn = 0, 0, 0
		if err := putRecord(t, &f.run); err != nil {
			return err
		}
	}
	return deletePause(t)
}

// RetryEntry executes a step again.
func RetryEntry(t Turn, id EntryID) error {
	const verb = "retry"
	im, rec, e, err := target(t, verb, id)
	if err != nil {
		return err
	}
	switch {
	case e.Kind != KindStep && e.Kind != KindCall:
		return &ControlError{verb, "entry " + im.names.Path(rec.loc) + " is a " + e.Kind.String() + ", not a step"}
	case e.Status == Completed:
		return &ControlError{verb,
			"step " + im.names.Path(rec.loc) + " has not failed; rewind to it to execute it again"}
	case e.Status.Over():
		return rewind(t, im, rec, verb, false)
	case im.state.Over():
		return &ControlError{verb, "the run is " + string(im.state)}
	}
	if m := im.metadata(e.ID); m != nil {
		if m.Held != nil && m.Held.Status == Completed {
			return &ControlError{verb,
				"step " + im.names.Path(rec.loc) + " has not failed; rewind to it to execute it again"}
		}
		again := *m
		if again.Held != nil {
			again.Held = nil
			if e.Status == Running { // AtMostOnce: it has ended
				e.Status = Pending
				st, err := newStore(im, 0)
				if err == nil {
					_, err = st.put(t, rec.loc, e)
				}
				if err != nil {
					return err
				}
			}
		}
		again.Attempts, again.Due = 0, t.Now()
		if err := t.Put(journal.MetadataKey(nil, e.ID), journal.AppendMetadata(nil, &again)); err != nil {
			return err
		}
	}
	return errors.Join(deletePause(t), calm(t, im))
}

// calm clears the counts of starts without progress.
func calm(t Turn, im *image) error {
	im.run.Boots, im.run.Entered, im.run.EnteredIn = 0, 0, 0
	return putRecord(t, &im.run)
}

// Rewind makes a run continue from before an entry.
func Rewind(t Turn, id EntryID) error {
	im, rec, _, err := target(t, "rewind", id)
	if err != nil {
		return err
	}
	return rewind(t, im, rec, "rewind", false)
}

// target loads a run for a change of its history.
func target(t Turn, verb string, id EntryID) (*image, *record, *Entry, error) {
	loc, err := id.location()
	if err != nil {
		return nil, nil, nil, err
	}
	im, err := loadImage(t)
	if err != nil {
		return nil, nil, nil, err
	}
	var reason string
	rec := im.find(loc)
	switch {
	case im.state == "":
		return nil, nil, nil, ErrNoRun
	case im.form == journal.Form1:
		reason = "the history is of form 1, which is only read"
	case im.state == StateTerminated:
		reason = "the run is terminated: an operator gave it up, and nothing goes on from there; fork it up to that entry"
	case im.state.Over() && im.run.Parent != nil:
		reason = "the run is " + string(im.state) + ", and its parent was told so; fork it up to that entry"
	case im.state == StateCompleted && !im.run.Kept:
		reason = "an earlier release completed the run, and dropped what it would have to undo; fork it up to that entry"
	case rec == nil:
		reason = im.missing(loc)
	case rec.form == journal.Form1:
		reason = "the entry is of form 1, which is only read"
	default:
		e, err := rec.header()
		return im, rec, e, err
	}
	return nil, nil, nil, &ControlError{verb, reason}
}

// missing says why the history has no entry at a location.
func (im *image) missing(loc journal.Location) string {
	reason := "the history has no entry " + quoteID(entryID(loc))
	for up := journal.ParentOf(loc); len(up) > 0; up = journal.ParentOf(up) {
		rec := im.find(up)
		if rec == nil {
			continue
		}
		switch e, err := rec.header(); {
		case err != nil:
		case e.Kind == KindLoop:
			reason += ": the history of iterations of loop " + im.names.Path(up) +
				" that have ended is deleted (see Keep)"
		case e.Status.Over():
			reason += ": what was inside of " + im.names.Path(up) +
				" was dropped when it ended, because the history was large"
		}
		break
	}
	return reason
}
