package kvrows

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// TestKVStoreScripts runs the life cycles of testdata. Each line is a turn, one millisecond after
// the last, and what it returns follows its block; `go test -run TestKVStoreScripts -rewrite`
// writes the results anew. A branch "-" is the store; a key a/1 has two parts, and "-" none; a
// value x*300 is long; times are relative to the beginning, or with + to now.
func TestKVStoreScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &script{rig: newRig(t), saved: map[string]engine.Version{}}
			s.s.scopes.Log = plainLog{}
			s.block(strings.Split(d.Input, "\n"))
			return s.out.String()
		})
	})
}

// A script is a store and the versions that a script has saved.
type script struct {
	*rig
	saved map[string]engine.Version
	out   strings.Builder
	last  string
}

// block runs lines; those between "repeat n" and "end" n times, with each $ replaced by the number
// of the round, from 1.
func (s *script) block(lines []string) {
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if rounds, is := strings.CutPrefix(line, "repeat "); is {
			n, err := strconv.Atoi(rounds)
			must(s.t, err)
			end := i + 1
			for lines[end] != "end" {
				end++
			}
			body := strings.Join(lines[i+1:end], "\n")
			for round := range n {
				s.block(strings.Split(strings.ReplaceAll(body, "$", strconv.Itoa(round+1)), "\n"))
			}
			i = end
			continue
		}
		s.turn()
		result, err := s.call(strings.Fields(line))
		if err != nil {
			result = failure(err)
		}
		if told := line + ": " + result + "\n"; result != "" && told != s.last { // of results that repeat, the first
			s.out.WriteString(told)
			s.last = told
		}
	}
}

// failure describes an error by the property that callers match.
func failure(err error) string {
	if e, is := errors.AsType[*QuotaError](err); is {
		return e.What + " are full"
	}
	if e, is := errors.AsType[*host.Error](err); is && e.Metadata["reason"] != "" {
		return e.Metadata["reason"]
	}
	if code := host.CodeOf(err); code != host.Internal {
		return string(code)
	}
	return err.Error()
}

const began = 1_000_000

func (s *script) call(f []string) (string, error) {
	options := map[string]string{}
	var args []string
	for _, field := range f[1:] {
		if name, value, is := strings.Cut(field, "="); is {
			options[name] = value
		} else {
			args = append(args, field)
		}
	}
	number := func(name string) int64 {
		n, err := strconv.ParseInt(options[name], 10, 64)
		if options[name] != "" {
			must(s.t, err)
		}
		return n
	}
	if name := options["as"]; name != "" {
		s.saved[name] = s.s.Version()
	}
	switch f[0] {
	case "wait":
		d, err := strconv.Atoi(args[0])
		s.now += int64(d)
		return "", err
	case "pin":
		_, err := s.s.Pin(time.Hour)
		return "", err
	case "scope":
		_, err := s.s.SetScope(key(args[0]), Policy{
			KeepVersions: number("keep"), KeepFor: number("for"), MaxKeys: number("keys"), MaxBytes: number("bytes"),
			MaxGroups: number("groups"), CountGroups: options["groups"] == "0", ReadOnly: options["read"] == "only", Log: options["log"] == "on",
		})
		return "", err
	case "unscope":
		return "", s.s.RemoveScope(key(args[0]))
	case "put":
		value := args[2]
		if unit, n, long := strings.Cut(value, "*"); long {
			times, err := strconv.Atoi(n)
			must(s.t, err)
			value = strings.Repeat(unit, times)
		}
		w, err := s.s.Writer(branch(args[0]))
		if err != nil {
			return "", err
		}
		o := engine.PutOptions{Encoding: uint8(number("encoding"))}
		if after, relative := strings.CutPrefix(options["expire"], "+"); relative {
			d, err := strconv.Atoi(after)
			must(s.t, err)
			o.ExpireAt = s.now + int64(d)
		} else if at := number("expire"); at != 0 {
			o.ExpireAt = began + at
		}
		return "", w.Put(keyspace.UserKV.Append(nil, key(args[1])), []byte(value), o)
	case "delete":
		w, err := s.s.Writer(branch(args[0]))
		if err != nil {
			return "", err
		}
		there, err := w.Delete(keyspace.UserKV.Append(nil, key(args[1])))
		if !there && err == nil {
			return "absent", nil
		}
		return "", err
	case "clear":
		part := Range{key(args[0]), keyspace.TupleEnd(key(args[0]))}
		if strings.Contains(args[0], "..") || args[0] == "-" {
			part = span(args[0])
		}
		n, err := s.s.DeleteRange(Bounds(part.Start, part.End))
		return fmt.Sprint(n), err
	case "fork":
		_, err := s.s.Fork(args[0], branch(args[1]), options["read"] == "only")
		return "", err
	case "remove":
		return "", s.s.RemoveBranch(args[0])
	case "merge":
		var parts []Range
		for _, part := range args[2:] {
			parts = append(parts, span(part))
		}
		strategy := map[string]Strategy{"": Strict, "ours": Ours, "theirs": Theirs}[options["take"]]
		m, err := s.tryMerge(branch(args[0]), s.saved[options["at"]], branch(args[1]), strategy, parts)
		if name := options["then"]; name != "" {
			s.saved[name] = s.s.Version()
		}
		return fmt.Sprintf("%d changes, %d conflicts", len(m.Mutations), m.Conflicted), err
	case "get":
		v, err := Look(s.s, branch(args[0]), s.saved[options["at"]], s.s.Version(), s.now)
		if err != nil {
			return "", err
		}
		e, there, err := v.Entry(keyspace.UserKV.Append(nil, key(args[1])))
		if !there && err == nil {
			return "absent", nil
		}
		return string(e.Value), err
	case "history": // how many versions, and before which nothing is known
		list, _, floor, err := History(s.s, keyspace.UserKV.Append(nil, key(args[0])), 0, 10, s.now)
		return fmt.Sprintf("%d versions, floor %d", len(list), floor), err
	case "purge": // until nothing is left to remove, or once
		if len(args) == 0 {
			s.purge()
			return "", nil
		}
		n, err := strconv.Atoi(args[0])
		must(s.t, err)
		more, err := s.s.Purge(n)
		return fmt.Sprintf("more %v", more), err
	case "rows":
		return fmt.Sprintf("%d versions, %d entries of branches", s.count(&keyspace.KVVersion), s.count(&keyspace.KVBranchEntry)), nil
	case "count":
		c, _, err := Counted(s.s, key(args[0]), s.now)
		return fmt.Sprintf("%d keys, %d bytes, %d groups of %d", c.Keys, c.Bytes, c.Groups, c.Grouped), err
	case "expiry": // before which nothing expires
		c, err := readCount(s.s, keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, key(args[0]))))
		return s.since(c.Expiry), err
	case "armed": // for when the purge is
		s.s.scopes.Reset()
		err := s.s.loadPurge()
		return s.since(s.s.scopes.purge), err
	case "log": // whether it was written since it was last asked for, and its events
		text := fmt.Sprintf("written %v", s.s.TakeLogged())
		for _, e := range events(s.t, s.s) {
			cause := [...]string{"", "set", "delete", "delete range", "expired"}[e.Cause]
			text += fmt.Sprintf("\n  %s %s", cause, keyspace.Format(keyspace.UserKV.Append(nil, e.Key)))
			switch {
			case e.Cause == CauseSet:
				text += fmt.Sprintf("=%s (%d) expire=%s", e.Value, e.Encoding, s.since(e.Expire))
			case e.Cause == CauseDeleteRange:
				text += fmt.Sprintf(" prefix=%d %x..%x", e.Prefix, e.Start, e.End)
			}
		}
		return text, nil
	default:
		s.t.Fatalf("there is no %s", f[0])
	}
	return "", nil
}

func (s *script) since(at int64) string {
	switch at {
	case 0:
		return "not at all"
	case never:
		return "never"
	}
	return fmt.Sprint(at - began)
}

// span returns the keys that are meant by a key, by a..b and by a.. and, with "-", all.
func span(text string) Range {
	from, to, is := strings.Cut(text, "..")
	switch {
	case text == "-":
		return Range{}
	case !is:
		return Range{key(text), append(bytes.Clone(key(text)), 0)}
	case to == "":
		return Range{key(from), nil}
	}
	return Range{key(from), key(to)}
}

func branch(name string) string { return strings.TrimPrefix(name, "-") }

// key packs a key such as a/1.
func key(text string) []byte {
	if text == "-" {
		return nil
	}
	var parts []any
	for part := range strings.SplitSeq(text, "/") {
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			parts = append(parts, n)
		} else {
			parts = append(parts, part)
		}
	}
	return pack(parts...)
}
