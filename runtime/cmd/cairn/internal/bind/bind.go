// Package bind makes the arguments and flags of a command the members of a method's input.
//
// A member is named as in JSON: the argument QUEUE is queue, [ID...] is the list ids, and the flag
// --dedup-id is dedup_id. A member with a unit, such as wait_ms, is a flag with a duration, here
// --wait.
package bind

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// A Flag is a member of an input that is a flag.
type Flag struct {
	Member, Usage string
	// Name is that of the flag; "" for the member's.
	Name    string
	Initial int
	// Document: the value must be JSON if the flag is given, also if it is "". Otherwise "" is no
	// value.
	Document bool
}

// Arguments returns the arguments after the first that a use line has, and how many arguments there
// are in all: at least, and at most, or -1 for any number.
func Arguments(use string) (names []string, least, most int) {
	words := strings.Fields(use)[1:]
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			break
		}
		if i > 0 {
			names = append(names, word)
		}
		if most++; word[0] != '[' {
			least = most
		}
	}
	if n := len(names); n > 0 && strings.Contains(names[n-1], "...") {
		most = -1
	}
	return names, least, most
}

// SetArguments sets the members of an input that arguments are. An argument that is no member is
// left alone.
func SetArguments(in any, names, args []string) error {
	for i, name := range names {
		argument := name
		name, many := strings.CutSuffix(strings.ToLower(strings.Trim(name, "[]")), "...")
		if many {
			name += "s"
		}
		to := Member(in, name)
		if !to.IsValid() || i >= len(args) {
			continue
		}
		switch p := to.Addr().Interface().(type) {
		case *string:
			*p = args[i]
		case *[]string:
			*p = args[i:]
		case *kv.Key:
			var err error
			if *p, err = Key(args[i]); err != nil {
				return err
			}
		case *[]uint64:
			var err error
			if *p, err = messageIDs(args[i:]); err != nil {
				return err
			}
		default:
			panic("the argument " + argument + " has no type of an argument")
		}
	}
	return nil
}

// messageIDs reads ids of messages.
func messageIDs(args []string) ([]uint64, error) {
	var ids []uint64
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || id == 0 {
			return nil, fmt.Errorf("%q is not the id of a message, which is a number", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Member returns the member of a struct that has a name in JSON; the zero Value if there is none.
func Member(in any, name string) reflect.Value {
	v, _ := member(in, name)
	return v
}

func member(in any, name string) (reflect.Value, reflect.StructTag) {
	v := reflect.ValueOf(in).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) { // also those of embedded structs
		if n, _, _ := strings.Cut(f.Tag.Get("json"), ","); n == name {
			return v.FieldByIndex(f.Index), f.Tag
		}
	}
	return reflect.Value{}, ""
}

// Flags adds flags that are members of in. Of the functions that it returns, check checks the
// values and sets the members, except for documents, which read reads, with document, whose errors
// it returns.
func Flags(set *pflag.FlagSet, flags []Flag, in any, document func(string) ([]byte, error)) (check, read func() error) {
	var checks, reads []func() error
	for _, f := range flags {
		if p, ok := Member(in, f.Member).Addr().Interface().(*host.Raw); ok {
			reads = append(reads, f.bindDocument(set, p, document))
		} else {
			checks = append(checks, f.bind(set, in))
		}
	}
	return func() error { return first(checks) }, func() error { return first(reads) }
}

// first calls functions until one fails.
func first(all []func() error) error {
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Flag) name() string {
	if f.Name != "" {
		return f.Name
	}
	return strings.ReplaceAll(strings.TrimSuffix(f.Member, "_ms"), "_", "-")
}

func (f *Flag) bindDocument(set *pflag.FlagSet, p *host.Raw, document func(string) ([]byte, error)) func() error {
	s := set.String(f.name(), "", f.Usage)
	return func() (err error) {
		if *s != "" || f.Document && set.Changed(f.name()) {
			*p, err = document(*s)
		}
		return err
	}
}

// bind adds a flag. The function that it returns checks the flag's value and sets the member.
func (f *Flag) bind(set *pflag.FlagSet, in any) func() error {
	to, tag := member(in, f.Member)
	name := f.name()
	if strings.HasSuffix(f.Member, "_ms") {
		d := set.Duration(name, 0, f.Usage)
		return func() error {
			if err := Duration(name, *d); err != nil {
				return err
			}
			if ms := d.Milliseconds(); to.Kind() != reflect.Pointer {
				to.SetInt(ms)
			} else if set.Changed(name) {
				to.Set(reflect.ValueOf(&ms))
			}
			return nil
		}
	}
	switch p := to.Addr().Interface().(type) {
	case *bool:
		set.BoolVar(p, name, false, f.Usage)
	case *uint64:
		set.Uint64Var(p, name, 0, f.Usage)
	case *int64:
		set.Int64Var(p, name, 0, f.Usage)
	case *int:
		set.IntVar(p, name, f.Initial, f.Usage)
		return func() error {
			var least, most int
			if n, _ := fmt.Sscanf(tag.Get("range"), "%d,%d", &least, &most); n == 2 && (*p < least || *p > most) {
				return fmt.Errorf("--%s %d: %d to %d", name, *p, least, most)
			}
			return nil
		}
	case **time.Time:
		s := set.String(name, "", f.Usage)
		return func() error {
			at, err := time.Parse(time.RFC3339, *s)
			switch {
			case *s == "":
			case err != nil:
				return fmt.Errorf("--%s %q: a time such as 2027-01-01T00:00:00Z is needed", name, *s)
			default:
				*p = &at
			}
			return nil
		}
	case *kv.Key:
		s := set.String(name, "", f.Usage)
		return func() (err error) {
			if set.Changed(name) {
				*p, err = Key(*s)
			}
			if err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
			return nil
		}
	default:
		s := set.String(name, "", f.Usage)
		return func() error {
			to.SetString(*s)
			return nil
		}
	}
	return func() error { return nil }
}

// Key reads a key of the key-value store: a path such as users/i~7, with or without a slash at the
// end, or a JSON array.
func Key(text string) (key kv.Key, err error) {
	if !strings.HasPrefix(text, "[") {
		return kv.ParsePath(strings.TrimSuffix(text, "/"))
	}
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		return nil, fmt.Errorf("%s is not a key: %w", text, err)
	}
	return key, nil
}

// Duration checks a flag that a request carries in milliseconds.
func Duration(flag string, d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("--%s %s: must not be negative", flag, d)
	case d%time.Millisecond != 0:
		return fmt.Errorf("--%s %s: whole milliseconds are needed", flag, d)
	}
	return nil
}
