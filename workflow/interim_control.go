package workflow

import "errors"

var ErrNoRun = errors.New("workflow: no run")
var ErrExists = errors.New("exists")

type StartOptions struct {
	ID      [16]byte
	Replace bool
	parent  *parentRef
}
type Started struct{}

func StartRun(t Turn, p *Program, input []byte, o StartOptions) (Started, error) {
	f, err := loadFields(t)
	if err != nil {
		return Started{}, err
	}
	if f.state != "" && !(o.Replace && f.state.Over()) {
		return Started{}, ErrExists
	}
	if f.state != "" {
		t.DeleteRange([]byte{7}, []byte{8})
	}
	putState(t, StatePending)
	putProgram(t, p.name, "")
	putInput(t, input)
	return Started{}, putRecord(t, &runRecord{ID: o.ID, Started: t.Now(), Parent: o.parent})
}
func Cancel(t Turn, reason string) error {
	return putControl(t, &control{Kind: "cancel", Reason: reason, Time: t.Now()})
}
func Terminate(t Turn, reason string) error { return putState(t, StateTerminated) }
func Resume(t Turn) error                   { return deletePause(t) }
