package keyspace

import (
	"math"
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// WorkflowFamily is the first element of a workflow key.
type WorkflowFamily uint8

const (
	WorkflowNames   WorkflowFamily = 1 // (1, name index) -> name
	WorkflowRecords WorkflowFamily = 2 // (2, location...) -> entry of the history
	WorkflowFields  WorkflowFamily = 3 // (3, field) -> field of the run
	WorkflowEntries WorkflowFamily = 4 // (4, entry number) -> metadata of an entry; (4, "id") in histories of form 1
	WorkflowUndos   WorkflowFamily = 5 // (5, number) -> undo obligation
	WorkflowInbox   WorkflowFamily = 6 // (6, number) -> message from another run that was not yet consumed
	WorkflowBlobs   WorkflowFamily = 8 // (8, hash) -> head of a large value, (8, hash, chunk) -> a part of it
)

// AppendWorkflowFamily appends what all workflow keys of a family begin with;
// the range ends at [TupleEnd].
func AppendWorkflowFamily(dst []byte, family WorkflowFamily) []byte {
	dst = append(dst, byte(KindWorkflow))
	return tuple.AppendUint(dst, uint64(family))
}

// ParseWorkflow takes a workflow key of any family apart; the result is a
// [WorkflowName], [WorkflowHistory], [WorkflowField], [WorkflowEntry],
// [WorkflowMetadata], [WorkflowUndo], [WorkflowMessage] or [WorkflowBlob].
func ParseWorkflow(key []byte) (Key, error) {
	if err := checkKind(key, KindWorkflow); err != nil {
		return nil, err
	}
	k, err := parseWorkflow(key[1:])
	return asKey(k, within(KindWorkflow, 1, err))
}

func parseWorkflow(packed []byte) (k Key, err error) {
	d := tuple.NewDecoder(packed)
	family, err := d.Uint()
	if err != nil {
		return nil, err
	}
	switch at := d.Offset(); WorkflowFamily(min(family, math.MaxUint8)) {
	case WorkflowNames:
		index, err := uint32Element(&d)
		if err != nil {
			return nil, err
		}
		k = WorkflowName{index}
	case WorkflowRecords:
		location, err := locationElements(&d)
		if err != nil {
			return nil, err
		}
		k = WorkflowHistory{location}
	case WorkflowFields:
		field, err := d.Uint()
		if err != nil {
			return nil, err
		}
		if field < uint64(FieldState) || field > uint64(FieldPause) {
			return nil, &tuple.SyntaxError{Offset: at, Reason: "unknown field " + strconv.FormatUint(field, 10)}
		}
		k = WorkflowField(field)
	case WorkflowEntries:
		if d.Peek() == tuple.TypeInt {
			number, err := uint32Element(&d)
			if err != nil {
				return nil, err
			}
			k = WorkflowMetadata{number}
			break
		}
		id, err := d.String()
		if err != nil {
			return nil, err
		}
		k = WorkflowEntry{id}
	case WorkflowUndos:
		number, err := d.Uint()
		if err != nil {
			return nil, err
		}
		k = WorkflowUndo{number}
	case WorkflowInbox:
		number, err := d.Uint()
		if err != nil {
			return nil, err
		}
		k = WorkflowMessage{number}
	case WorkflowBlobs:
		blob, err := blobElements(&d)
		if err != nil {
			return nil, err
		}
		k = blob
	default:
		return nil, &tuple.SyntaxError{Offset: 0, Reason: "unknown family " + strconv.FormatUint(family, 10)}
	}
	return k, d.End()
}

func uint32Element(d *tuple.Decoder) (uint32, error) {
	at := d.Offset()
	v, err := d.Uint()
	if err == nil && v > math.MaxUint32 {
		err = &tuple.SyntaxError{Offset: at, Reason: "number does not fit 32 bits"}
	}
	return uint32(v), err
}

func locationElements(d *tuple.Decoder) (Location, error) {
	var location Location
	for d.More() {
		var s Segment
		var err error
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

// WorkflowName is the key of a name in the registry that locations refer to:
// 07 and the tuple (1, index). Indexes count from 0.
type WorkflowName struct{ Index uint32 }

// AppendWorkflowName appends the key of a name.
func AppendWorkflowName(dst []byte, index uint32) []byte {
	return tuple.AppendUint(AppendWorkflowFamily(dst, WorkflowNames), uint64(index))
}

// ParseWorkflowName returns the index of the name.
func ParseWorkflowName(key []byte) (uint32, error) {
	k, err := parseFamily[WorkflowName](key)
	return k.Index, err
}

// parseFamily parses a workflow key that must be of one type.
func parseFamily[K Key](key []byte) (K, error) {
	var none K
	k, err := ParseWorkflow(key)
	if err != nil {
		return none, err
	}
	if k, ok := k.(K); ok {
		return k, nil
	}
	return none, &SyntaxError{what(KindWorkflow), 1, "key of another family: " + k.String()}
}

// Kind returns [KindWorkflow].
func (WorkflowName) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowName) Append(dst []byte) []byte { return AppendWorkflowName(dst, k.Index) }

// String returns the form workflow/name 256.
func (k WorkflowName) String() string {
	return "workflow/name " + strconv.FormatUint(uint64(k.Index), 10)
}

func (WorkflowName) key() {}

// Location is the place of a step in a workflow: from the root inwards.
type Location []Segment

// Segment is one step of a [Location]: the index of a name, or one iteration of
// the loop with that name.
type Segment struct {
	Name      uint32 // index in the name registry
	Loop      bool   // an iteration of the loop Name
	Iteration uint32 // meaningful if Loop
}

// String returns the form [3, loop 3 #7, 5].
func (l Location) String() string {
	dst := []byte{'['}
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
	return string(append(dst, ']'))
}

// WorkflowHistory is the key of an entry of the history: 07 and the tuple (2,
// segment...), where a loop's segment is the nested tuple (name, iteration).
type WorkflowHistory struct{ Location Location }

// AppendWorkflowHistory appends the key of a location, which is not empty. It is
// also the start of the range of that location and all inside it, which ends at
// [TupleEnd].
func AppendWorkflowHistory(dst []byte, location Location) []byte {
	dst = AppendWorkflowFamily(dst, WorkflowRecords)
	for _, s := range location {
		if !s.Loop {
			dst = tuple.AppendUint(dst, uint64(s.Name))
			continue
		}
		dst = tuple.BeginNested(dst)
		dst = tuple.AppendUint(dst, uint64(s.Name))
		dst = tuple.AppendUint(dst, uint64(s.Iteration))
		dst = tuple.EndNested(dst)
	}
	return dst
}

// ParseWorkflowHistory returns the location.
func ParseWorkflowHistory(key []byte) (Location, error) {
	k, err := parseFamily[WorkflowHistory](key)
	return k.Location, err
}

// Kind returns [KindWorkflow].
func (WorkflowHistory) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowHistory) Append(dst []byte) []byte { return AppendWorkflowHistory(dst, k.Location) }

// String returns the form workflow/history[3, loop 3 #7, 5].
func (k WorkflowHistory) String() string { return "workflow/history" + k.Location.String() }

func (WorkflowHistory) key() {}

// WorkflowField is the key of a field of the run: 07 and the tuple (3, field).
type WorkflowField uint8

const (
	FieldState   WorkflowField = 1 // the state word, such as running
	FieldOutput  WorkflowField = 2 // what the workflow returned
	FieldError   WorkflowField = 3 // why it failed
	FieldVersion WorkflowField = 4 // name and version of the workflow
	FieldInput   WorkflowField = 5 // what it was started with

	FieldControl   WorkflowField = 6 // what was requested of the run: to cancel
	FieldRun       WorkflowField = 7 // the run's id, its counters, its parent
	FieldPublished WorkflowField = 8 // what the run shows of itself
	FieldPause     WorkflowField = 9 // why it does not go on
)

// AppendWorkflowField appends the key of a field.
func AppendWorkflowField(dst []byte, field WorkflowField) []byte {
	return tuple.AppendUint(AppendWorkflowFamily(dst, WorkflowFields), uint64(field))
}

// ParseWorkflowField returns the field.
func ParseWorkflowField(key []byte) (WorkflowField, error) { return parseFamily[WorkflowField](key) }

// Kind returns [KindWorkflow].
func (WorkflowField) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowField) Append(dst []byte) []byte { return AppendWorkflowField(dst, k) }

// String returns the form workflow/state.
func (k WorkflowField) String() string {
	switch k {
	case FieldState:
		return "workflow/state"
	case FieldOutput:
		return "workflow/output"
	case FieldError:
		return "workflow/error"
	case FieldVersion:
		return "workflow/version"
	case FieldInput:
		return "workflow/input"
	case FieldControl:
		return "workflow/control"
	case FieldRun:
		return "workflow/run"
	case FieldPublished:
		return "workflow/published"
	case FieldPause:
		return "workflow/pause"
	default:
		return "workflow/field " + strconv.Itoa(int(k))
	}
}

func (WorkflowField) key() {}

// WorkflowEntry is the key of the metadata of an entry as histories of form 1
// have it: 07 and the tuple (4, entry id), the id being a string. Metadata that
// is written now has a [WorkflowMetadata] key.
type WorkflowEntry struct{ ID string }

// AppendWorkflowEntry appends the key of an entry's metadata.
func AppendWorkflowEntry(dst []byte, id string) []byte {
	return tuple.AppendString(AppendWorkflowFamily(dst, WorkflowEntries), id)
}

// ParseWorkflowEntry returns the id of the entry.
func ParseWorkflowEntry(key []byte) (string, error) {
	k, err := parseFamily[WorkflowEntry](key)
	return k.ID, err
}

// Kind returns [KindWorkflow].
func (WorkflowEntry) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowEntry) Append(dst []byte) []byte { return AppendWorkflowEntry(dst, k.ID) }

// String returns the form workflow/entry("abc").
func (k WorkflowEntry) String() string { return "workflow/entry(" + strconv.Quote(k.ID) + ")" }

func (WorkflowEntry) key() {}
