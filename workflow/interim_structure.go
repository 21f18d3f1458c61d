package workflow

// What follows stands in until package structure's files are merged.

type saga struct{}

type undoHandlers struct{}

type undoBy struct{}

func (r *Run) rootSaga(s *scope, invoke func(ctx Context, input []byte) ([]byte, error), input []byte) ([]byte, error) {
	return invoke(s, input)
}

func (r *Run) atEnd(State, []byte, *Failure) error { return nil }

type structure struct{ obligations obligations }

type obligations struct{}

func (obligations) load([]numbered) error { return nil }

func (r *Run) pollChildren() error { return nil }

func (r *Run) discharge(location) error { return nil }

func (o *op) undoneByName(undoBy) error { return nil }
