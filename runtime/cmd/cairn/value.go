package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// A describer writes stored values in the most readable form that fits them.
type describer struct{ cbor cbor.DiagMode }

func newDescriber() (describer, error) {
	// Records hold JSON and keys in byte strings; as text they can be read.
	mode, err := cbor.DiagOptions{ByteStringText: true}.DiagMode()
	return describer{mode}, err
}

// describe writes the value of a logical key. value is its beginning, and all of it if whole is
// set; only then is it decoded.
//
//  1. The runtime's own records, the actor's state among them, are a format version, as a varint,
//     and CBOR. They are written as the version and CBOR's diagnostic notation (RFC 8949, section
//     8): v1 ["changed", 7].
//  2. In the application's store a value may be anything: JSON is written as it is, CBOR in
//     diagnostic notation.
//  3. Everything else is text in quotes if it can be printed, and hexadecimal otherwise.
//
// Few bytes may be valid in two forms: the byte 37 is the JSON document 7, and -24 in CBOR. JSON
// comes first, because hardly any CBOR looks like it.
func (d describer) describe(key, value []byte, whole bool) string {
	if whole && len(key) > 0 && keyspace.Kind(key[0]) != keyspace.UserKV.Kind {
		if version, n := binary.Uvarint(value); n > 0 && n < len(value) {
			if text, err := d.cbor.Diagnose(value[n:]); err == nil {
				return fmt.Sprintf("v%d %s", version, text)
			}
		}
	}
	if whole {
		var compact bytes.Buffer
		if printable(value) && json.Compact(&compact, value) == nil {
			return compact.String()
		}
		if text, err := d.cbor.Diagnose(value); err == nil {
			return text
		}
	}
	if printable(value) {
		return strconv.Quote(string(value))
	}
	return "0x" + hex.EncodeToString(value)
}

// printable reports whether b is text: valid UTF-8 without control characters other than white
// space. A character that the end of b cuts in two is accepted.
func printable(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
		b = b[n:]
	}
	return true
}
