package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// maxLine bounds a line of input.
	maxLine = 16 << 20
	// batchBytes is about how much one request carries: half of what a node takes unless it is told otherwise.
	batchBytes = 512 << 10
)

var errNoMoreLines = errors.New("no more lines")

// lines reads lines.
type lines struct{ s *bufio.Scanner }

func newLines(r io.Reader) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return &lines{s}
}

// next returns the next line without the white space around it. The caller may keep it. The error is errNoMoreLines at
// the end.
func (l *lines) next() ([]byte, error) {
	line, err := l.raw()
	return bytes.Clone(bytes.TrimSpace(line)), err
}

// raw returns the next line without its end. It is valid until the next call.
func (l *lines) raw() ([]byte, error) {
	switch {
	case l.s.Scan():
		return l.s.Bytes(), nil
	case errors.Is(l.s.Err(), bufio.ErrTooLong):
		return nil, fmt.Errorf("a line is longer than %s", size(maxLine))
	case l.s.Err() != nil:
		return nil, l.s.Err()
	}
	return nil, errNoMoreLines
}

// batches reads JSON documents from standard input, one a line, and hands them to f: at most so many at a time, and
// about batchBytes. Empty lines are skipped.
func (c *cli) batches(most int, f func([]host.Raw) error) error {
	lines := newLines(c.stdin)
	var batch []host.Raw
	bytes, handed := 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := f(batch); err != nil {
			return fmt.Errorf("after %s: %w", plural(int64(handed), "line"), err)
		}
		handed += len(batch)
		batch, bytes = nil, 0
		return nil
	}
	for n := 1; ; n++ {
		line, err := lines.next()
		switch {
		case errors.Is(err, errNoMoreLines):
			return flush()
		case err != nil:
			return fmt.Errorf("standard input, after %s: %w", plural(int64(handed), "line"), err)
		case len(line) == 0:
			continue
		case !json.Valid(line):
			return fmt.Errorf("line %d of standard input is not JSON; %s before it went out", n, plural(int64(handed), "line"))
		}
		if len(batch) == most || bytes+len(line) > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, bytes = append(batch, line), bytes+len(line)
	}
}
