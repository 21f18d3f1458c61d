package workflow

// A Func is a workflow function. It must be deterministic: what it does may depend only on its input and on what its
// operations return.
type Func[In, Out any] func(ctx Context, in In) (Out, error)

// A Definition is a workflow: a name, a function, and options. It is immutable and may be used by many runs at once.
type Definition[In, Out any] struct {
	program *Program
}

// A Program is a Definition without its types, as hosts use it.
type Program struct {
	name string
	// invoke runs the function on the encoded input and returns the encoded output.
	invoke func(ctx Context, input []byte) ([]byte, error)
	config config
}

// Name returns the name of the workflow.
func (p *Program) Name() string { return p.name }

// Program returns the definition without its types.
func (d *Definition[In, Out]) Program() *Program { return d.program }
