package codec

// A ValueError says that a value cannot be encoded so that it decodes to an equal value.
type ValueError struct {
	// Path leads from the outermost value to the offending one, such as "Items[3].At"; "" is the
	// outermost value.
	Path string
	// Reason says what is wrong.
	Reason string
	// cause is the *host.MemberError that Reason describes, or nil.
	cause error
}

// Unwrap returns the *host.MemberError of a JSON text, if there is one.
func (e *ValueError) Unwrap() error { return e.cause }

// Error returns the path and the reason.
func (e *ValueError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}
