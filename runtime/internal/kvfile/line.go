package kvfile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// AppendLine appends an entry as one line of JSON, with its end. The error is about a damaged
// value.
//
//	{"key":["user",7],"value":{"name":"Ada"},"expires":"2027-01-01T00:00:00Z"}
//	{"key":["raw"],"value":{"$bytes":"AAH/"},"encoding":"bytes"}
//
// The value is as in the JSON of kv.commit, in the form that keeps all bytes: CBOR is
// {"$cbor":base64}, and V8's form is {"$v8":base64}. ParseLine returns the same key, encoding,
// bytes and expiry.
func AppendLine(dst []byte, e *kv.Entry) ([]byte, error) {
	key, err := e.Key.MarshalJSON()
	if err != nil {
		return dst, err
	}
	v, err := stored(&e.Value)
	if err != nil {
		return dst, host.Errorf(host.Internal, "the entry of the key %s: %s", key, err)
	}
	dst = append(append(append(dst, `{"key":`...), key...), `,"value":`...)
	switch v.Encoding {
	case host.EncodedCBOR, host.EncodedTyped:
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `{"$cbor":"`...), v.Data), `"}`...)
	case host.EncodedV8:
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `{"$v8":"`...), v.Data), `"}`...)
	default:
		if dst, err = v.AppendJSON(dst); err != nil {
			return dst, err
		}
	}
	if v.Encoding != host.EncodedJSON {
		dst = append(append(append(dst, `,"encoding":"`...), v.Encoding.String()...), '"')
	}
	if !e.Expires.IsZero() {
		dst = e.Expires.UTC().AppendFormat(append(dst, `,"expires":"`...), time.RFC3339Nano)
		dst = append(dst, '"')
	}
	return append(dst, "}\n"...), nil
}

// stored checks a value. One of an earlier release, which kept no encoding, gets that of its bytes.
func stored(v *kv.Value) (value.Value, error) {
	if v.Encoding != host.Unencoded {
		return value.Stored(v.Encoding, v.Data)
	}
	for _, encoding := range []host.Encoding{host.EncodedJSON, host.EncodedCBOR} {
		if found, err := value.Stored(encoding, v.Data); err == nil {
			return found, nil
		}
	}
	return value.Value{Encoding: host.EncodedBytes, Data: v.Data}, nil
}

// ParseLine reads a line. The error code is InvalidArgument or TooLarge, and the metadata "field"
// names the wrong member.
func ParseLine(text []byte) (e kv.Entry, err error) {
	var line struct {
		Key      host.Raw `json:"key"`
		Value    host.Raw `json:"value"`
		Encoding host.Raw `json:"encoding"`
		Expires  host.Raw `json:"expires"`
	}
	if !json.Valid(text) {
		return e, host.Errorf(host.InvalidArgument, "is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if text = bytes.TrimSpace(text); text[0] != '{' {
		return e, host.Errorf(host.InvalidArgument, `is not an object {"key","value","encoding","expires"}`)
	}
	err = host.CheckJSON(text, &line) // names unknown members, too
	if err == nil {
		err = d.Decode(&line)
	}
	if err != nil {
		return e, host.WithMember(host.Errorf(host.InvalidArgument, "%s",
			strings.TrimPrefix(err.Error(), "json: ")), "", err)
	}
	if line.Key == nil {
		return e, host.Errorf(host.InvalidArgument, "the key is missing").With("field", "key")
	}
	if err := host.CheckJSON(line.Key, nil); err != nil {
		return e, host.WithMember(host.Errorf(host.InvalidArgument, "%s", err), "key", err)
	}
	if err := e.Key.UnmarshalJSON(line.Key); err != nil {
		return e, member("key", err)
	}
	if _, err := e.Key.Entry(); err != nil {
		return e, member("key", err)
	}
	e.Value.Encoding = host.EncodedJSON
	if line.Encoding != nil {
		var word string
		known := json.Unmarshal(line.Encoding, &word) == nil
		if known {
			e.Value.Encoding, known = host.ParseEncoding(word)
		}
		if !known {
			return e, host.Errorf(host.InvalidArgument, "%.40s is not an encoding", line.Encoding).
				With("field", "encoding")
		}
	}
	if line.Value == nil {
		return e, host.Errorf(host.InvalidArgument, "the value is missing").With("field", "value")
	}
	v, err := value.FromJSON(e.Value.Encoding, line.Value)
	if err == nil {
		v, err = value.Stored(v.Encoding, v.Data) // as a commit will check it
	}
	if err != nil {
		return e, member("value", err)
	}
	e.Value.Data = v.Data
	if line.Expires != nil {
		var text string
		err := json.Unmarshal(line.Expires, &text)
		if err == nil {
			e.Expires, err = time.Parse(time.RFC3339Nano, text)
		}
		if err != nil || string(line.Expires) == "null" || e.Expires.UnixMilli() <= 0 {
			return e, host.Errorf(host.InvalidArgument,
				"%.40s is not a time such as 2027-01-01T00:00:00Z", line.Expires).With("field", "expires")
		}
		e.Expires = time.UnixMilli(e.Expires.UnixMilli()).UTC()
	}
	return e, nil
}

// member puts a member before the path that an error names.
func member(name string, err error) error {
	e, is := errors.AsType[*host.Error](err)
	if !is {
		return host.Errorf(host.InvalidArgument, "%s", err).With("field", name)
	}
	if field := e.Metadata["field"]; field != "" {
		return host.WithMember(e, name, &host.MemberError{Path: field})
	}
	return e.With("field", name)
}
