package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// ErrNotJSON is the fault of a message that cannot be read at all. After other faults the socket
// continues.
var ErrNotJSON = host.Errorf(host.InvalidArgument, "the message is not JSON text")

// DecodeJSON decodes one JSON value with only members that v has. The fault is ErrNotJSON if data
// is not JSON.
func DecodeJSON(data []byte, v any) *host.Error {
	if !utf8.Valid(data) {
		return ErrNotJSON
	}
	if err := host.CheckCounts(host.JSON, data, v); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrNotJSON
	}
	if _, end := d.Token(); end != io.EOF {
		return ErrNotJSON
	}
	if err == nil {
		err = host.CheckJSON(data, v)
		if err != nil {
			return host.WithMember(host.Errorf(host.InvalidArgument, "%s", err), "", err)
		}
		return nil
	}
	errors.As(err, &kind)
	member := host.FindMember(data, v, err)
	switch {
	case member != nil && member.Unfit && kind != nil:
		return wrong(member.Path, "the member %s cannot be: %s", member.Path, host.Clip(kind.Value))
	case member != nil && member.Unknown:
		return wrong(member.Path, "the object has an %s", member)
	case member != nil:
		return wrong(member.Path, "%s", member)
	case kind != nil:
		return host.Errorf(host.InvalidArgument, "an object is expected, not: %s", host.Clip(kind.Value))
	}
	return host.Errorf(host.InvalidArgument, "the object does not fit: %s",
		host.Clip(strings.TrimPrefix(err.Error(), "json: ")))
}

// wrong returns the error for a wrong member.
func wrong(member, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...).With("field", strings.ToValidUTF8(member, "\uFFFD"))
}
