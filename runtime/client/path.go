package client

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// Path returns the path of an actor below a node's base URL, percent-encoded: /actors/{type}/{key
// parts...}/-/. The error code is InvalidArgument if the type is empty, or if the type or a key
// part is not valid UTF-8.
//
// Key parts that are empty, ".", ".." or "-", or that begin with "~", get a "~" in front:
// percent-encoding alone does not protect them from clients and proxies that clean paths.
func Path(a host.Address) (string, error) {
	p, err := actorPath(a)
	if err != nil {
		return "", err
	}
	return p, nil
}

func actorPath(a host.Address) (string, *host.Error) {
	if a.Type == "" {
		return "", host.Errorf(host.InvalidArgument, "the actor type is empty")
	}
	var b strings.Builder
	b.WriteString("/actors/")
	if !appendSegment(&b, a.Type) {
		return "", host.Errorf(host.InvalidArgument, "the actor type %q is not valid UTF-8", a.Type)
	}
	for i, part := range a.Key {
		b.WriteByte('/')
		if !appendSegment(&b, part) {
			return "", host.Errorf(host.InvalidArgument, "part %d of the key, %q, is not valid UTF-8", i+1, part)
		}
	}
	b.WriteString("/-/")
	return b.String(), nil
}

// appendSegment appends one segment and reports whether it could.
func appendSegment(b *strings.Builder, s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	switch {
	case s == "", s == ".", s == "..", s == "-", s[0] == '~':
		b.WriteByte('~')
	}
	b.WriteString(url.PathEscape(s))
	return true
}

// withParams appends parameters to a path.
func withParams(path string, params url.Values) string {
	if len(params) == 0 {
		return path
	}
	return path + "?" + params.Encode()
}
