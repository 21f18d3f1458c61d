package main

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// parseAddress reads TYPE/PART/PART, the form in the gateway's URLs. Parts are percent-escaped, so
// a part may hold a slash. The parts "", "-", "." and "..", and parts that begin with "~", have a
// "~" in front. The parts "-", "." and ".." are also accepted without it, because they have another
// meaning only in URLs.
func parseAddress(s string) (host.Address, error) {
	typ, rest, more := strings.Cut(s, "/")
	if err := checkType(typ); err != nil {
		return host.Address{}, err
	}
	a := host.Address{Type: typ}
	if !more {
		return a, nil
	}
	var err error
	if a.Key, err = parseParts(rest); err != nil {
		return host.Address{}, fmt.Errorf("actor %q: %w", s, err)
	}
	return a, nil
}

// parseParts reads PART/PART, the key of an actor or the beginning of one.
func parseParts(s string) ([]string, error) {
	parts := strings.Split(s, "/")
	for i, escaped := range parts {
		part, err := url.PathUnescape(escaped)
		switch {
		case err != nil:
			return nil, fmt.Errorf("key part %q is not percent-escaped as in a URL (a percent sign is written %%25)", escaped)
		case part == "":
			return nil, fmt.Errorf("key part %d is missing (an empty part is written \"~\")", i+1)
		case !utf8.ValidString(part):
			return nil, fmt.Errorf("key part %q is not UTF-8", escaped)
		case part[0] == '~':
			if part = part[1:]; !marked(part) {
				return nil, fmt.Errorf("key part %q begins with \"~\", which is written \"~~\"", escaped)
			}
		}
		parts[i] = part
	}
	return parts, nil
}

// parsePrefix reads the value of --prefix: leading parts of a key, with or without a slash at the
// end.
func parsePrefix(s string) ([]string, error) {
	parts, err := parseParts(strings.TrimSuffix(s, "/"))
	if err != nil {
		return nil, usagef("--prefix: %w", err)
	}
	return parts, nil
}

// formatAddress writes an address in the form of URLs, which parseAddress reads.
func formatAddress(typ string, key []string) string {
	var b strings.Builder
	b.WriteString(typ)
	for _, part := range key {
		b.WriteByte('/')
		b.WriteString(formatPart(part))
	}
	return b.String()
}

func formatPart(part string) string {
	if marked(part) {
		return "~" + url.PathEscape(part)
	}
	return url.PathEscape(part)
}

// marked reports whether a key part has a "~" in front when it is written.
func marked(part string) bool {
	return part == "" || part == "-" || part == "." || part == ".." || part[0] == '~'
}

func checkType(typ string) error {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
	other := func(r rune) bool { return !letter(r) && (r < '0' || r > '9') && r != '-' && r != '_' }
	if len(typ) == 0 || len(typ) > 64 || !letter(rune(typ[0])) || strings.ContainsFunc(typ, other) {
		return fmt.Errorf("%q is not the name of an actor type: 1 to 64 characters, a letter first, then letters, digits, \"-\" and \"_\"", typ)
	}
	return nil
}
