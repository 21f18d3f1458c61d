package workflow

// Start is StartRun, until that has this name.
func Start(t Turn, p *Program, input []byte, o StartOptions) (Started, error) {
	return StartRun(t, p, input, o)
}
