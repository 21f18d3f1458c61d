package natspub

import (
	"errors"
	"fmt"
	"strings"
)

// The families of subjects: the token after the namespace.
const (
	familyEvent  = "event"
	familyChange = "change"
	familyLife   = "life"
	familyAudit  = "audit"
	familyCall   = "call"
)

// maxSubject is the longest subject, in bytes. By default, a server reads the control line of a
// message (verb, subject, reply subject, sizes) into 4,096 bytes. It ends the connection of a
// client that exceeds them, so one such message would stop all others.
const maxSubject = 4096 - 128

const upperHex = "0123456789ABCDEF"

// reserved reports whether a byte of a key part must be escaped, because it has a meaning in NATS
// or in escapes.
func reserved(c byte) bool {
	switch c {
	case '.', '*', '>', '%', ' ', 0x7F:
		return true
	}
	return c < 0x20
}

// AppendToken appends the subject token for s: reserved bytes become %XX with upper-case digits,
// and "" becomes "%". "_" becomes "%5F", because the token "_" means the empty key. Different
// strings have different tokens.
func AppendToken(dst []byte, s string) []byte {
	switch s {
	case "":
		return append(dst, '%')
	case "_":
		return append(dst, "%5F"...)
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; reserved(c) {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&0x0F])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// Token returns the subject token for s. See AppendToken.
func Token(s string) string { return string(AppendToken(nil, s)) }

// A TokenError is the error for a subject token that AppendToken does not write.
type TokenError struct {
	Token  string
	Reason string
}

// Error names the token and the reason.
func (e *TokenError) Error() string {
	return fmt.Sprintf("subject token %q: %s", e.Token, e.Reason)
}

// ParseToken returns the string of a token. It accepts only tokens that AppendToken writes, so each
// key has one subject; the error is a *TokenError.
func ParseToken(token string) (string, error) {
	switch token {
	case "":
		return "", &TokenError{token, "is empty; an empty part is written %"}
	case "%":
		return "", nil
	case "_":
		return "", &TokenError{token, "stands for the empty key; a part that is an underscore is written %5F"}
	case "%5F":
		return "_", nil
	}
	if !strings.ContainsAny(token, "%") {
		for i := 0; i < len(token); i++ {
			if reserved(token[i]) {
				return "", &TokenError{token, fmt.Sprintf("has a byte that must be written %%%02X", token[i])}
			}
		}
		return token, nil
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c != '%' {
			if reserved(c) {
				return "", &TokenError{token, fmt.Sprintf("has a byte that must be written %%%02X", c)}
			}
			b.WriteByte(c)
			continue
		}
		if i+2 >= len(token) {
			return "", &TokenError{token, "ends within an escape"}
		}
		high, low := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if high < 0 || low < 0 {
			return "", &TokenError{token, "has an escape that is not % and two upper-case hexadecimal digits"}
		}
		if c = byte(high<<4 | low); !reserved(c) {
			return "", &TokenError{token, fmt.Sprintf("escapes %q, which is written as it is", c)}
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), nil
}

// AppendKey appends the tokens of a key, joined by dots: "_" for the empty key.
func AppendKey(dst []byte, key []string) []byte {
	if len(key) == 0 {
		return append(dst, '_')
	}
	for i, part := range key {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = AppendToken(dst, part)
	}
	return dst
}

// ParseKey returns the key of tokens joined by dots: the inverse of AppendKey. The error is a
// *TokenError.
func ParseKey(tokens string) ([]string, error) {
	if tokens == "_" {
		return []string{}, nil
	}
	key := make([]string, 0, strings.Count(tokens, ".")+1)
	for token := range strings.SplitSeq(tokens, ".") {
		part, err := ParseToken(token)
		if err != nil {
			return nil, err
		}
		key = append(key, part)
	}
	return key, nil
}

// Subjects builds the subjects below one root. The root is one or more tokens, without wildcards.
type Subjects struct{ root string }

// NewSubjects checks the root.
func NewSubjects(root string) (Subjects, error) {
	for token := range strings.SplitSeq(root, ".") {
		if token == "" ||
			strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == '*' || r == '>' || r == 0x7F }) {
			return Subjects{},
				fmt.Errorf("natspub: root subject %q: want tokens joined by dots, without wildcards and spaces", root)
		}
	}
	if strings.HasPrefix(root, "$") {
		return Subjects{}, errors.New("natspub: a root subject that begins with $ belongs to NATS itself")
	}
	return Subjects{root}, nil
}

// forged reports whether an answer to a reply subject would be a message of another kind: a call or
// an event of a node, or a command to the server. In NATS, a client can name reply subjects to
// which only the node may publish.
func (s Subjects) forged(reply string) bool {
	return strings.HasPrefix(reply, s.root+".") || strings.HasPrefix(reply, "$")
}

// append appends <root>.<namespace>.<family>.<type>.<name>.<key...>.
func (s Subjects) append(dst []byte, namespace, family, typ, name string, key []string) []byte {
	dst = append(s.appendPrefix(dst, namespace, family, typ, name), '.')
	return AppendKey(dst, key)
}

func (s Subjects) appendPrefix(dst []byte, namespace, family, typ, name string) []byte {
	dst = append(append(dst, s.root...), '.')
	dst = append(AppendToken(dst, namespace), '.')
	dst = append(append(dst, family...), '.')
	dst = append(AppendToken(dst, typ), '.')
	return AppendToken(dst, name)
}

// Event is the subject of an event that an actor emitted.
func (s Subjects) Event(namespace, typ, name string, key []string) string {
	return string(s.append(nil, namespace, familyEvent, typ, name, key))
}

// Change is the subject of a change of one kind ("kv", "state") to an actor's data.
func (s Subjects) Change(namespace, typ, kind string, key []string) string {
	return string(s.append(nil, namespace, familyChange, typ, kind, key))
}

// Life is the subject of a transition ("created", "slept") of an actor's life.
func (s Subjects) Life(namespace, typ, transition string, key []string) string {
	return string(s.append(nil, namespace, familyLife, typ, transition, key))
}

// Audit is the subject of the audit records of an actor for one method.
func (s Subjects) Audit(namespace, typ, verb string, key []string) string {
	return string(s.append(nil, namespace, familyAudit, typ, verb, key))
}

// Call is the subject for calls of one method of one actor.
func (s Subjects) Call(namespace, typ, method string, key []string) string {
	return string(s.append(nil, namespace, familyCall, typ, method, key))
}

// Calls is the subject, with a wildcard for the key, on which one method of an actor type is
// served.
func (s Subjects) Calls(namespace, typ, method string) string {
	return string(append(s.appendPrefix(nil, namespace, familyCall, typ, method), ".>"...))
}
