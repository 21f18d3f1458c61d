package replay

import (
	"bytes"
	"errors"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// The values of Entry.OnClose: how a child in another actor is ended when its parent ends.
const (
	closeCancels    = 1
	closeTerminates = 2
)

// The verbs of the messages that end a child.
const (
	verbCancelChild    = "cancel"
	verbTerminateChild = "terminate"
)

// Terminate ends a run at once, without running its code.
func Terminate(t Turn, reason string) error {
	f, err := living(t, "terminate")
	if err != nil {
		return err
	}
	if err := closeChildren(t, &f.run); err != nil {
		return err
	}
	start, end := keyspace.WorkflowMessage.Range()
	failure := &Failure{Message: reason, Reason: "terminated"}
	if err := errors.Join(putState(t, StateTerminated), putFailure(t, failure), deletePause(t), t.DeleteRange(start, end)); err != nil {
		return err
	}
	if f.form == journal.Form1 {
		return nil
	}
	f.run.Ended = t.Now()
	if err := putRecord(t, &f.run); err != nil {
		return err
	}
	return reportEnd(t, &f.run, StateTerminated, nil, nil)
}

// closeChildren ends the children in other actors that have not ended, because their parent's run
// has.
func closeChildren(t Turn, run *runRecord) error {
	type open struct {
		loc   journal.Location
		entry Entry
	}
	var children []open
	w := walk{r: t}
	for e, err := range w.entries(nil, nil) {
		if err != nil {
			return err
		}
		if e.peeked.Over() {
			continue
		}
		entry, err := e.decode()
		if err != nil {
			return err
		}
		if entry.Kind == KindSpawn && entry.Child.Type != "" && entry.OnClose != 0 {
			child := open{bytes.Clone(e.loc), *entry}
			child.entry.State = bytes.Clone(entry.State)
			children = append(children, child)
		}
	}
	for i := range children {
		verb := verbCancelChild
		if children[i].entry.OnClose == closeTerminates {
			verb = verbTerminateChild
		}
		if err := closeChild(t, run, children[i].loc, &children[i].entry, verb); err != nil {
			return err
		}
	}
	return nil
}
