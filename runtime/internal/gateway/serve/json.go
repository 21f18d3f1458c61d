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

// ErrNotJSON is why a message cannot be read at all. Every other fault of a message leaves its
// socket in order.
var ErrNotJSON = host.Errorf(host.InvalidArgument, "the message is not JSON text")

// DecodeJSON reads one JSON value with no members that v does not have. The fault is ErrNotJSON if
// data is something else.
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

// wrong is the error for a member that is wrong.
func wrong(member, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...).With("field", strings.ToValidUTF8(member, "\uFFFD"))
}
