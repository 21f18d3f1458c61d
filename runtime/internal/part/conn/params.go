package conn

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// credentialWords are in the names of parameters that are not stored, wherever they stand in the
// name. Names are compared in lower case, without "-" and "_".
var credentialWords = []string{
	"token", "password", "passwd", "passphrase", "secret", "authorization", "apikey", "cookie", "session", "credential", "jwt",
	"bearer", "privatekey",
}

// credentialNames are such names as a whole.
var credentialNames = []string{"auth", "pwd", "pass"}

// isCredential reports whether a parameter of this name is taken for a credential.
func isCredential(name string) bool {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	return slices.Contains(credentialNames, name) ||
		slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(name, word) })
}

// withoutCredentials returns the parameters of a connection as they are stored if no hook says
// otherwise: without the members, at any depth, whose names say that they are credentials. Nothing
// left is nil. Text that is not JSON is not stored.
func withoutCredentials(params []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(params))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || v == nil {
		return nil
	}
	if !strip(v) {
		return bytes.Clone(params)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

// strip removes credentials from a decoded value and reports whether there were any.
func strip(v any) (found bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if isCredential(name) {
				delete(v, name)
				found = true
			} else if strip(member) {
				found = true
			}
		}
	case []any:
		for _, item := range v {
			if strip(item) {
				found = true
			}
		}
	}
	return found
}
