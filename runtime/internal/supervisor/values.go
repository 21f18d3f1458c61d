package supervisor

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
)

// The values of applications are stored in CBOR. Requests carry them in an encoding of their own.

// convert checks a value that came with a request and returns it in CBOR.
func (t *actorType) convert(kind host.ValueKind, index int, codec host.Codec, value host.Raw) ([]byte, error) {
	if t.Convert == nil {
		return nil, host.Errorf(host.Internal, "actor type %q does not say how its values are encoded", t.Type)
	}
	out, err := t.Convert(kind, index, codec, value, host.CBOR, nil)
	if err != nil {
		return nil, invalidValue(err)
	}
	return out, nil
}

// present returns a stored value in the encoding of a request.
func (t *actorType) present(kind host.ValueKind, index int, value []byte, codec host.Codec) (host.Raw, error) {
	if codec == host.CBOR {
		return value, nil
	}
	if t.Convert == nil {
		return nil, host.Errorf(host.Internal, "actor type %q does not say how its values are encoded", t.Type)
	}
	return t.Convert(kind, index, host.CBOR, value, codec, nil)
}

// invalidValue says that a value in a request is wrong.
func invalidValue(err error) error {
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	return host.Errorf(host.InvalidArgument, "%s", err)
}
