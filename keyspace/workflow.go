package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Field is the number of a field of a workflow run.
type Field uint8

const (
	FieldState     Field = 1 // the state word, such as running
	FieldOutput    Field = 2 // the result of the workflow
	FieldError     Field = 3 // why it failed
	FieldVersion   Field = 4 // name and version of the workflow
	FieldInput     Field = 5 // the input of the workflow
	FieldControl   Field = 6 // a request to the run: to cancel
	FieldRun       Field = 7 // the run's id, its counters, its parent
	FieldPublished Field = 8 // the data that the run publishes
	FieldPause     Field = 9 // why it does not continue
)

var fieldNames = [...]string{
	FieldState: "state", FieldOutput: "output", FieldError: "error", FieldVersion: "version", FieldInput: "input",
	FieldControl: "control", FieldRun: "run", FieldPublished: "published", FieldPause: "pause",
}

// WorkflowHash names a large value of a workflow by its content.
type WorkflowHash [32]byte

// Blob is a key of a large value: the tuple (family, hash) or (family, hash, chunk).
type Blob struct{ layout }

// Append appends the key of a head, for chunk 0, or of a part; chunks count from 1. The head comes
// before the parts.
func (l *Blob) Append(dst []byte, hash *WorkflowHash, chunk uint32) []byte {
	dst = tuple.AppendBytes(l.lead(dst), hash[:])
	if chunk == 0 {
		return dst
	}
	return tuple.AppendUint(dst, uint64(chunk))
}

// Place is a key of a location: the tuple (family, segment...).
type Place struct{ layout }

// Parse returns the location.
func (l *Place) Parse(key []byte) (Location, error) {
	var v values
	err := l.parse(key, &v)
	return v.at, err
}

// Location is the place of a step in a workflow: from the root inwards.
type Location []Segment

// Segment is one step of a [Location]: the index of a name, or one iteration of the loop with that
// name.
type Segment struct {
	Name      uint32 // index in the name registry
	Loop      bool   // an iteration of the loop Name
	Iteration uint32 // meaningful if Loop
}

// append prints the location in the form [3, loop 3 #7, 5].
func (l Location) append(dst []byte) []byte {
	dst = append(dst, '[')
	for i, s := range l {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if s.Loop {
			dst = append(dst, "loop "...)
		}
		dst = strconv.AppendUint(dst, uint64(s.Name), 10)
		if s.Loop {
			dst = append(dst, " #"...)
			dst = strconv.AppendUint(dst, uint64(s.Iteration), 10)
		}
	}
	return append(dst, ']')
}

func locationElements(d *tuple.Decoder) (location Location, err error) {
	for d.More() {
		var s Segment
		if s.Loop = d.Peek() == tuple.TypeTuple; s.Loop {
			if err = d.Nested(); err != nil {
				return nil, err
			}
		}
		if s.Name, err = uint32Element(d); err != nil {
			return nil, err
		}
		if s.Loop {
			if s.Iteration, err = uint32Element(d); err != nil {
				return nil, err
			}
			if err = d.EndNested(); err != nil {
				return nil, err
			}
		}
		location = append(location, s)
	}
	if len(location) == 0 {
		return nil, &tuple.SyntaxError{Offset: d.Offset(), Reason: "empty location"}
	}
	return location, nil
}
