package host

import "errors"

// Raw is a value in the encoding of the request that carries it: JSON text in a JSON request, one
// CBOR item in a CBOR one. It is copied in and out as it is.
type Raw []byte

// MarshalJSON returns r, or null if it is empty.
func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON copies data.
func (r *Raw) UnmarshalJSON(data []byte) error { return r.set(data) }

// MarshalCBOR returns r, or null if it is empty.
func (r Raw) MarshalCBOR() ([]byte, error) {
	if len(r) == 0 {
		return []byte{0xF6}, nil
	}
	return r, nil
}

// UnmarshalCBOR copies data.
func (r *Raw) UnmarshalCBOR(data []byte) error { return r.set(data) }

func (r *Raw) set(data []byte) error {
	if r == nil {
		return errors.New("host: Raw: decode into a nil pointer")
	}
	*r = append((*r)[:0], data...)
	return nil
}
