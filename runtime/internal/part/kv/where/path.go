package where

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A step goes from a value into a part of it: to a member, or to an element if there is no name.
type step struct {
	name  string
	index int
	array bool
}

// parsePath compiles a path to a function that finds the named value in an entry; a missing value
// is null.
func parsePath(path string) (func(*Entry) any, error) {
	if strings.HasPrefix(path, "$") {
		return ownPath(path)
	}
	steps, err := parseSteps(path)
	if err != nil {
		return nil, err
	}
	return func(e *Entry) any { return follow(e.Value, steps) }, nil
}

// A Path names a value, or a part of one.
type Path struct{ steps []step }

// ParsePath reads a path: names between dots, indexes in brackets, or $value for the value as a
// whole.
func ParsePath(text string) (Path, error) {
	if text == "$value" {
		return Path{}, nil
	}
	if strings.HasPrefix(text, "$") {
		return Path{}, fmt.Errorf("the path %.40q is not $value; write \\$ for a member whose name begins with $", text)
	}
	steps, err := parseSteps(text)
	return Path{steps}, err
}

// Of returns the named part of a decoded value; nil if it is missing.
func (p Path) Of(v any) any { return follow(v, p.steps) }

func follow(v any, steps []step) any {
	for _, s := range steps {
		if s.array {
			list, _ := v.([]any)
			if s.index >= len(list) {
				return nil
			}
			v = list[s.index]
			continue
		}
		m, _ := v.(map[string]any)
		v = m[s.name]
	}
	return v
}

// ownPath compiles a path to a property of the entry itself.
func ownPath(path string) (func(*Entry) any, error) {
	switch path {
	case "$version":
		return func(e *Entry) any { return json.Number(strconv.FormatUint(e.Version, 10)) }, nil
	case "$size":
		return func(e *Entry) any { return json.Number(strconv.Itoa(e.Size)) }, nil
	case "$created":
		return func(e *Entry) any { return milliseconds(e.Created) }, nil
	case "$updated":
		return func(e *Entry) any { return milliseconds(e.Updated) }, nil
	case "$expires":
		return func(e *Entry) any { return milliseconds(e.Expires) }, nil
	}
	if rest, ok := strings.CutPrefix(path, "$key["); ok {
		steps, err := parseSteps("[" + rest)
		if err != nil {
			return nil, err
		}
		return func(e *Entry) any { return follow(e.Key, steps) }, nil
	}
	return nil, fmt.Errorf("%.40q is neither an operator nor something of an entry; write \\$ for a member whose name begins with $", path)
}

func milliseconds(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return json.Number(strconv.FormatInt(t.UnixMilli(), 10))
}

// parseSteps reads names between dots and indexes in brackets.
func parseSteps(path string) ([]step, error) {
	var steps []step
	rest := path
	for first := true; ; first = false {
		if strings.HasPrefix(rest, "[") {
			text, after, closed := strings.Cut(rest[1:], "]")
			n, err := strconv.ParseUint(text, 10, 31)
			if !closed || err != nil || len(text) > 1 && text[0] == '0' {
				return nil, fmt.Errorf("the path %.40q has an index that is not a number in brackets", path)
			}
			steps, rest = append(steps, step{index: int(n), array: true}), after
		} else {
			if !first {
				var ok bool
				if rest, ok = strings.CutPrefix(rest, "."); !ok {
					return nil, fmt.Errorf("the path %.40q goes on after an index without a dot", path)
				}
			}
			name, after, err := parseName(rest)
			if err != nil {
				return nil, fmt.Errorf("the path %.40q %s", path, err)
			}
			steps, rest = append(steps, step{name: name}), after
		}
		if rest == "" {
			return steps, nil
		}
	}
}

// parseName reads a name up to a dot or a bracket.
func parseName(text string) (name, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i == len(text) {
				return "", "", errors.New("ends with a backslash")
			}
			b.WriteByte(text[i])
		case '.', '[':
			if b.Len() == 0 {
				return "", "", errors.New("has an empty name")
			}
			return b.String(), text[i:], nil
		case ']':
			return "", "", errors.New("has a bracket that nothing opens")
		default:
			b.WriteByte(c)
		}
	}
	if b.Len() == 0 {
		return "", "", errors.New("has an empty name")
	}
	return b.String(), "", nil
}
