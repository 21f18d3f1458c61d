package replay

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// An Inspection is a whole history in one JSON document, in the shape that inspectors of histories of form 1 read: the registry
// of names, the entries with locations that refer to it, their metadata by id; and what the run waits for. Payloads that are
// CBOR are shown as JSON.
type Inspection struct {
	NameRegistry  []string                      `json:"nameRegistry"`
	Entries       []InspectedEntry              `json:"entries"`
	EntryMetadata map[EntryID]InspectedMetadata `json:"entryMetadata"`
	Waiting       []Waiting                     `json:"waiting"`
}

// An InspectedEntry is an entry of an Inspection.
type InspectedEntry struct {
	ID EntryID `json:"id"`
	// Location has an index of NameRegistry for each name, and an InspectedIteration for each iteration.
	Location []any `json:"location"`
	Kind     struct {
		Type string         `json:"type"`
		Data map[string]any `json:"data"`
	} `json:"kind"`
}

// An InspectedIteration is an iteration in a location.
type InspectedIteration struct {
	Loop      uint32 `json:"loop"`
	Iteration uint32 `json:"iteration"`
}

// InspectedMetadata is the metadata of an entry of an Inspection. Times are Unix ms.
type InspectedMetadata struct {
	Status              string  `json:"status"`
	Error               *string `json:"error,omitempty"`
	Attempts            uint32  `json:"attempts"`
	LastAttemptAt       int64   `json:"lastAttemptAt"`
	CreatedAt           int64   `json:"createdAt"`
	CompletedAt         *int64  `json:"completedAt,omitempty"`
	RollbackCompletedAt *int64  `json:"rollbackCompletedAt,omitempty"`
	RollbackError       *string `json:"rollbackError,omitempty"`
}

// Inspect returns the inspection of a run of up to limit entries; more is reported by the error, which is a *TooLargeError.
func Inspect(r Reader, limit int) (*Inspection, error) {
	st, err := ReadStatus(r)
	if err != nil {
		return nil, err
	}
	if st.Entries > limit {
		return nil, &TooLargeError{"the inspection, in entries,", int64(st.Entries), int64(limit)}
	}
	in := &Inspection{NameRegistry: []string{}, Entries: []InspectedEntry{}, EntryMetadata: map[EntryID]InspectedMetadata{}, Waiting: st.Waiting}
	if in.Waiting == nil {
		in.Waiting = []Waiting{}
	}
	w := walk{r: r}
	for e, err := range w.entries(nil, nil) {
		if err != nil {
			return nil, err
		}
		entry, err := e.decode()
		if err != nil {
			return nil, err
		}
		h, err := w.show(e, entry)
		if err != nil {
			return nil, err
		}
		segments, err := e.loc.segments()
		if err != nil {
			return nil, err
		}
		in.Entries = append(in.Entries, inspected(&h, segments))
		in.EntryMetadata[h.ID] = h.metadata()
	}
	for i := range w.names.len() {
		in.NameRegistry = append(in.NameRegistry, w.names.name(uint32(i)))
	}
	return in, nil
}

func inspected(h *HistoryEntry, segments keyspace.Location) (e InspectedEntry) {
	e.ID, e.Kind.Type, e.Kind.Data = h.ID, h.Kind.String(), map[string]any{}
	for _, s := range segments {
		if s.Loop {
			e.Location = append(e.Location, InspectedIteration{s.Name, s.Iteration})
		} else {
			e.Location = append(e.Location, s.Name)
		}
	}
	set := func(name string, v any) {
		if v := reflect.ValueOf(v); v.IsValid() && !v.IsZero() {
			e.Kind.Data[name] = v.Interface()
		}
	}
	set("output", shownPayload(h.Output, h.Codec))
	set("sensitive", h.Sensitive)
	if h.Failure != nil {
		set("error", h.Failure.Message)
	}
	switch h.Kind {
	case KindLoop:
		set("state", shownPayload(h.State, h.Codec))
		e.Kind.Data["iteration"] = h.Iteration
	case KindSleep, KindReceive, KindAwait:
		set("deadline", millis(h.Deadline))
		e.Kind.Data["state"] = h.Status.String()
		set("queues", h.Queues)
		set("messages", h.Messages)
	case KindRace:
		set("winner", h.Winner)
	case KindVersion:
		e.Kind.Data["resolved"], e.Kind.Data["latest"] = h.Resolved, h.Latest
	case KindSpawn:
		set("program", h.Program)
		set("child", h.Child)
	}
	return e
}

func (h *HistoryEntry) metadata() InspectedMetadata {
	m := InspectedMetadata{Status: h.Status.String(), Attempts: h.Attempts, LastAttemptAt: millis(h.LastAttempt), CreatedAt: millis(h.Created)}
	text := func(f *Failure) *string {
		if f == nil {
			return nil
		}
		return &f.Message
	}
	ms := func(t time.Time) *int64 {
		if t.IsZero() {
			return nil
		}
		v := millis(t)
		return &v
	}
	if m.Error = text(h.Failure); m.Error == nil {
		m.Error = text(h.LastFailure)
	}
	if h.Kind == KindStep && m.Attempts == 0 && h.Status.Over() {
		m.Attempts, m.LastAttemptAt = 1, m.CreatedAt // it has no metadata: it ended with its first
	}
	m.CompletedAt, m.RollbackCompletedAt, m.RollbackError = ms(h.Ended), ms(h.Undone), text(h.UndoFailure)
	return m
}

// shownPayload returns a payload as a value that encodes as JSON: what the CBOR says if that can be shown, else the bytes.
func shownPayload(b []byte, codec uint8) any {
	if b == nil {
		return nil
	}
	var v any
	if codec == CodecCBOR && shownDecoding.Unmarshal(b, &v) == nil {
		if _, err := json.Marshal(v); err == nil {
			return v
		}
	}
	return fmt.Sprintf("%d bytes: %x", len(b), b[:min(len(b), 64)])
}

// shownDecoding decodes what there may be in a payload to what JSON knows. Its options are constant and cannot be wrong.
var shownDecoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any](), DefaultByteStringType: reflect.TypeFor[[]byte]()}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()
