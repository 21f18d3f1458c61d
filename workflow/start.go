package workflow

// Start writes the first rows of a run of a program, with its encoded input. If there is a run of the same workflow with the
// same input, whether it has ended or not, nothing happens, unless the options name another id. The error is ErrExists if there is another one, a *TooLargeError, or
// one of t.
func Start(t Turn, p *Program, input []byte, o StartOptions) (Started, error) {
	if p.err != nil {
		return Started{}, p.err
	}
	return start(t, p.name, p.config.version, CodecCBOR, input, o)
}
