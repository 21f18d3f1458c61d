package workflow

import "crypto/rand"

// StartOptions are options of Start.
type StartOptions struct {
	// ID names the run; zero for a random one.
	ID [16]byte
}

// Started says what Start did.
type Started struct{ ID string }

// Start starts a run.
func Start(t Turn, p *Program, input []byte, o StartOptions) (Started, error) {
	if err := p.Err(); err != nil {
		return Started{}, err
	}
	if o.ID == [16]byte{} {
		rand.Read(o.ID[:])
	}
	for _, err := range []error{
		putProgram(t, p.name, p.config.version), putInput(t, input), putState(t, StatePending),
		putRecord(t, &runRecord{ID: o.ID, Started: millisUTC(t.Now())}),
	} {
		if err != nil {
			return Started{}, err
		}
	}
	return Started{}, nil
}

// Cancel requests cancellation.
func Cancel(t Turn, reason string) error {
	return putControl(t, &control{Kind: "cancel", Reason: reason, Time: t.Now()})
}

// A ControlError says why a request cannot be done.
type ControlError struct{ Verb, Reason string }

func (e *ControlError) Error() string { return e.Reason }

const controlCancel = "cancel"
