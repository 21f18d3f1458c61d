package strata

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// A command is a decoded command.
type command interface {
	// run returns the answer.
	run(c *call) (any, error)
}

// commands makes an empty command by name, for decoding.
var commands = map[string]func() command{
	"KvPut":         func() command { return new(kvPut) },
	"KvGet":         func() command { return new(kvGet) },
	"KvDelete":      func() command { return new(kvDelete) },
	"KvExists":      func() command { return new(kvExists) },
	"KvGetv":        func() command { return new(kvGetv) },
	"KvList":        func() command { return new(kvList) },
	"KvScan":        func() command { return new(kvScan) },
	"KvCount":       func() command { return new(kvCount) },
	"KvSample":      func() command { return new(kvSample) },
	"KvBatchPut":    func() command { return new(kvBatchPut) },
	"KvBatchGet":    func() command { return new(kvBatchGet) },
	"KvBatchExists": func() command { return new(kvBatchExists) },
	"KvBatchDelete": func() command { return new(kvBatchDelete) },
	"BranchCreate":  func() command { return new(branchCreate) },
	"BranchFork":    func() command { return new(branchFork) },
	"BranchGet":     func() command { return new(branchGet) },
	"BranchList":    func() command { return new(branchList) },
	"BranchExists":  func() command { return new(branchExists) },
	"BranchDelete":  func() command { return new(branchDelete) },
	"BranchDiff":    func() command { return new(branchDiff) },
	"BranchMerge":   func() command { return new(branchMerge) },
	"TxnBegin":      func() command { return new(txnBegin) },
	"TxnCommit":     func() command { return new(txnCommit) },
	"TxnRollback":   func() command { return new(txnRollback) },
	"TxnInfo":       func() command { return new(txnInfo) },
	"TxnIsActive":   func() command { return new(txnIsActive) },
}

// parse decodes the body of a request. A command is {NAME:{members}}, or "NAME" if it needs none.
// session is "" if the body has none.
func parse(body []byte) (session string, cmd command, err error) {
	var in struct {
		Session *text    `json:"session"`
		Command host.Raw `json:"command"`
	}
	if err := kvrest.Decode(body, &in); err != nil {
		return "", nil, err
	}
	if in.Session != nil {
		if session = string(*in.Session); session == "" || len(session) > maxSession {
			return "", nil, invalid("session", "has %d bytes; it has 1 to %d", len(session), maxSession)
		}
	}
	if len(in.Command) == 0 {
		return "", nil, invalid("command", "is missing")
	}
	if err := host.CheckJSON(in.Command, nil); err != nil {
		return "", nil, host.WithMember(host.Errorf(host.InvalidArgument, "command: %s", err), "command", err)
	}
	name, input, fits := split(in.Command)
	if !fits {
		return "", nil, invalid("command", "is an object with one member, the name of a command, or that name alone")
	}
	make, known := commands[name]
	if !known {
		return "", nil, invalid("command", "%.80q is not known; known are: %s", name,
			strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
	}
	if string(input) == "null" {
		input = json.RawMessage("{}")
	}
	if input[0] != '{' {
		return "", nil, invalid("command."+name, "is not an object")
	}
	cmd = make()
	if err := kvrest.Decode(input, cmd); err != nil {
		return "", nil, within(name, err)
	}
	return session, cmd, nil
}

// split returns the name of a command and the object with its members, and whether the text is a
// command. The text must be JSON.
func split(text []byte) (name string, members json.RawMessage, fits bool) {
	p := parser{text: text}
	switch p.next() {
	case '"':
		name, fits = unquote(p.token())
		return name, json.RawMessage("{}"), fits
	case '{':
		if p.at++; p.next() != '"' {
			return "", nil, false
		}
		name, fits = unquote(p.token())
		p.next()
		members = json.RawMessage(bytes.TrimRight(text[p.at:], " \t\r\n"))
		members = bytes.TrimRight(members[:len(members)-1], " \t\r\n") // without the bracket; no second member follows
		return name, members, fits && json.Valid(members)
	}
	return "", nil, false
}

// within adds the name of the command to an error.
func within(name string, err error) error {
	e, is := errors.AsType[*host.Error](err)
	if !is {
		return err
	}
	out := e.With("field", strings.TrimSuffix("command."+name+"."+e.Metadata["field"], "."))
	out.Message = name + ": " + e.Message
	return out
}

// A text is a string of valid Unicode. An invalid string would become the key of another entry.
type text string

// UnmarshalJSON reads a string.
func (s *text) UnmarshalJSON(b []byte) error {
	got, is := unquote(b)
	if !is {
		return host.Errorf(host.InvalidArgument, "a string of Unicode is expected")
	}
	*s = text(got)
	return nil
}

// unquote returns the string of a JSON text, and whether it is valid Unicode.
func unquote(token []byte) (string, bool) {
	if len(token) < 2 || token[0] != '"' || !utf8.Valid(token) {
		return "", false
	}
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1]), true
	}
	var s string
	if json.Unmarshal(token, &s) != nil {
		return "", false
	}
	// The decoder writes U+FFFD for half of a surrogate pair.
	escapes := bytes.ToLower(bytes.ReplaceAll(token, []byte(`\\`), nil))
	return s, strings.Count(s, "\uFFFD") == bytes.Count(token, []byte("\uFFFD"))+bytes.Count(escapes, []byte(`\ufffd`))
}
