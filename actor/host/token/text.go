package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Prefix begins the text of each token. It distinguishes tokens of actors from others, so that
// scanners can find a published token.
const Prefix = "cairn_"

// IDChars is the length of an id.
const IDChars = idBytes * 8 / 5

// The sizes of the parts of a token, in bytes and in characters.
const (
	idBytes     = 10
	secretBytes = 20 // 160 bits
	secretChars = secretBytes * 8 / 5
)

// alphabet needs no escape in headers, URLs and subprotocols.
const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// A Digest is the stored form of a secret, which is random, so it needs no salt and no slow hash.
type Digest = [sha256.Size]byte

// New makes the text of a token, its id and the digest of its secret.
func New() (text, id string, digest Digest) {
	var b [idBytes + secretBytes]byte
	rand.Read(b[:]) // never fails
	chars := encoding.EncodeToString(b[:])
	return Prefix + chars, chars[:IDChars], sha256.Sum256(b[idBytes:])
}

// Parse returns the id in the text of a token and the digest of its secret. ok is false if the text
// is no token.
func Parse(text string) (id string, digest Digest, ok bool) {
	chars, ok := strings.CutPrefix(text, Prefix)
	if !ok || !lettered(chars, IDChars+secretChars) {
		return "", digest, false
	}
	secret, err := encoding.DecodeString(chars[IDChars:])
	if err != nil {
		return "", digest, false
	}
	return chars[:IDChars], sha256.Sum256(secret), true
}

// IsID reports whether a text has the form of an id.
func IsID(text string) bool { return lettered(text, IDChars) }

// lettered reports whether a text has n characters, all of the alphabet. The decoder would skip
// line breaks.
func lettered(text string, n int) bool {
	if len(text) != n {
		return false
	}
	for i := range len(text) {
		if strings.IndexByte(alphabet, text[i]) < 0 {
			return false
		}
	}
	return true
}

// Bearer returns the token of an actor in the value of an Authorization header; "" if it has
// another credential or none.
func Bearer(header string) string {
	const scheme = "bearer "
	if len(header) < len(scheme)+len(Prefix) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return ""
	}
	if text := strings.TrimSpace(header[len(scheme):]); strings.HasPrefix(text, Prefix) {
		return text
	}
	return ""
}
