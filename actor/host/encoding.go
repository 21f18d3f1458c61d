package host

import (
	"slices"
	"strconv"
)

// An Encoding is the encoding of an entry's value, and is kept with the value. The first three have
// the numbers of the KV Connect protocol.
type Encoding uint8

const (
	// Unencoded values were stored by an earlier release, which kept no encoding. They are CBOR or
	// JSON, depending on their bytes; a value that is neither is bytes.
	Unencoded Encoding = iota
	// EncodedV8 values are serialized by V8, as by the clients of Deno KV.
	EncodedV8
	// EncodedU64 values are unsigned integers of 8 bytes, little-endian.
	EncodedU64
	// EncodedBytes values are bytes that Cairn does not interpret.
	EncodedBytes
	// EncodedJSON values are JSON text without white space between its tokens. Numbers keep all
	// their digits.
	EncodedJSON
	// EncodedInteger values are integers of any size: a byte that is 1 if the integer is below
	// zero, otherwise 0, and the bytes of its magnitude, big-endian and without zeros in front.
	EncodedInteger
	// EncodedTyped values are CBOR in which integers, doubles, texts and bytes are four types,
	// which are never converted into each other.
	EncodedTyped
	// EncodedText values are UTF-8.
	EncodedText
	// EncodedCBOR values are CBOR, as a Map of a Go actor stores them.
	EncodedCBOR

	encodings
)

var encodingWords = [encodings]string{"", "v8", "u64", "bytes", "json", "integer", "typed", "text", "cbor"}

// ParseEncoding returns the encoding that a word names; false if none does.
func ParseEncoding(word string) (Encoding, bool) {
	i := slices.Index(encodingWords[1:], word) + 1
	return Encoding(i), i > 0
}

// String returns the word for the encoding in JSON.
func (e Encoding) String() string {
	if e < encodings {
		return encodingWords[e]
	}
	return "encoding " + strconv.Itoa(int(e))
}
