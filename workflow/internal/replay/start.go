package replay

// Start writes the first rows of a run of a program, with its encoded input.
func Start(t Turn, p *Program, input []byte, o StartOptions) (Started, error) {
	if p.err != nil {
		return Started{}, p.err
	}
	return start(t, p.name, p.config.version, CodecCBOR, input, o)
}
