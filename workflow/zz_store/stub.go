package workflow

func closeChild(t Turn, run *runRecord, loc location, e *Entry, verb string) error {
	return t.Send(&Outgoing{To: e.Child, Verb: verb, Body: e.State})
}

func reportEnd(t Turn, run *runRecord, state State, output []byte, f *Failure) error {
	if run.Parent == nil {
		return nil
	}
	return t.Send(&Outgoing{To: run.Parent.To, Verb: "result"})
}
