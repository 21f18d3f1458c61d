package wire

import "github.com/cairn-run/cairn/actor/host"

// The names and values of applications: the contract that a name in a request belongs to, and the
// conversion of a value between the encoding of a request and CBOR, in which it is stored.

// Named returns the index of the contract that a name belongs to: the one that declares it, else
// the one for undeclared names; -1 if there is none, or the name is not well formed.
func Named(n int, declared func(i int) string, name string) int {
	if !ValidName(name) {
		return -1
	}
	at := -1
	for i := range n {
		switch declared(i) {
		case name:
			return i
		case host.AnyName:
			at = i
		}
	}
	return at
}

// UnknownName is the error for a name of a queue, schedule or stream that the actor type does not
// have.
func UnknownName(t *host.Behavior, code host.Code, kind, name string) error {
	switch {
	case name == "":
		return host.Errorf(host.InvalidArgument, "the name of the %s is missing", kind).With("field", nameMember(kind))
	case !ValidName(name):
		return host.Errorf(host.InvalidArgument,
			`%q cannot name a %s: a name is 1 to 64 characters: a letter, then letters, digits, "-" and "_"`,
			name[:min(len(name), 100)], kind).With("field", nameMember(kind))
	}
	e := host.Errorf(code, "actor type %q has no %s %q", t.Type, kind, name).With(kind, name)
	if code == host.InvalidArgument {
		e = e.With("field", nameMember(kind))
	}
	return e
}

// nameMember returns the member of an input that names a queue, schedule or stream.
func nameMember(kind string) string {
	if kind == "schedule" {
		return "name"
	}
	return kind
}

// ValidName reports whether a name of a queue, schedule or stream is well formed: 1 to 64
// characters, a letter first, then letters, digits, "-" and "_".
func ValidName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Convert converts a value of the application between encodings, which checks it. field names it in
// errors.
func Convert(t *host.Behavior, kind host.ValueKind, index int, from host.Codec, value []byte,
	to host.Codec, field string) ([]byte, error) {
	if t.Convert == nil {
		return nil, host.Errorf(host.InvalidArgument,
			"%s: actor type %q takes no values from outside", field, t.Type).With("field", field)
	}
	out, err := t.Convert(kind, index, from, value, to, nil)
	if err != nil {
		if e, ok := err.(*host.Error); ok {
			return nil, e
		}
		return nil, host.WithMember(host.Errorf(host.InvalidArgument, "%s: %v", field, err), field, err)
	}
	return out, nil
}

// Present returns a stored value in the encoding of a request.
func Present(t *host.Behavior, kind host.ValueKind, index int, value []byte, codec host.Codec) (host.Raw, error) {
	if codec == host.CBOR {
		return value, nil
	}
	return Convert(t, kind, index, host.CBOR, value, codec, "value")
}

// Shown is Present for a list, which one value must not hide: a value without a form in the
// encoding is null.
func Shown(t *host.Behavior, kind host.ValueKind, index int, value []byte, codec host.Codec) host.Raw {
	shown, err := Present(t, kind, index, value, codec)
	if err != nil {
		return nil
	}
	return shown
}
