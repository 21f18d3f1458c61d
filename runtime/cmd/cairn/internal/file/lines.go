package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// maxLine bounds a line of input.
const maxLine = 16 << 20

// ErrNoMore says that there are no more lines.
var ErrNoMore = errors.New("no more lines")

// Lines reads lines.
type Lines struct{ s *bufio.Scanner }

// NewLines returns a reader of the lines of r.
func NewLines(r io.Reader) *Lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return &Lines{s}
}

// Next returns the next line without the white space around it. The caller may keep it. The error
// is ErrNoMore at the end.
func (l *Lines) Next() ([]byte, error) {
	line, err := l.Raw()
	return bytes.Clone(bytes.TrimSpace(line)), err
}

// Raw returns the next line without its end. It is valid until the next call.
func (l *Lines) Raw() ([]byte, error) {
	switch {
	case l.s.Scan():
		return l.s.Bytes(), nil
	case errors.Is(l.s.Err(), bufio.ErrTooLong):
		return nil, fmt.Errorf("a line is longer than %s", table.Size(maxLine))
	case l.s.Err() != nil:
		return nil, l.s.Err()
	}
	return nil, ErrNoMore
}
