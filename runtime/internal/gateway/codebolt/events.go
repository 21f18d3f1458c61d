package codebolt

import (
	"encoding/json"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The types of messages. The last two are not Codebolt's: the position where the events begin or
// continue, and a gap.
const (
	instanceCreated  = "kvStore:instance-created"
	instanceUpdated  = "kvStore:instance-updated"
	instanceDeleted  = "kvStore:instance-deleted"
	recordSet        = "kvStore:record-set"
	recordDeleted    = "kvStore:record-deleted"
	namespaceCleared = "kvStore:namespace-cleared"
	position         = "kvStore:position"
	gap              = "kvStore:gap"
)

// Prefix returns the prefix of the keys whose changes are events.
func Prefix() kv.Key { return kv.Key{part} }

// Log turns on the log for the keys of events, and keeps the rest of their scope's policy.
func Log(r *kvrest.Request) error {
	in := kv.SetScopeInput{Prefix: Prefix(), Extend: true, ScopePolicy: kv.ScopePolicy{Log: true}}
	var found kv.ScopesOutput
	if err := r.DoExisting(host.KVScopes, &kv.ScopesInput{Prefix: in.Prefix, Limit: 1}, &found); err != nil {
		return err
	}
	if len(found.Scopes) > 0 && len(found.Scopes[0].Prefix) == len(in.Prefix) && found.Scopes[0].Log {
		return nil
	}
	return r.DoExisting(host.KVSetScope, &in, new(kv.Scope))
}

// A Message is a message for a follower. The sequence is the position after it.
type Message struct {
	Sequence uint64 `json:"sequence"`
	Type     string `json:"type"`
	Payload  any    `json:"payload"`
}

// A recordPayload is the payload of an event about a record.
type recordPayload struct {
	InstanceID string   `json:"instanceId"`
	Namespace  string   `json:"namespace"`
	Key        string   `json:"key"`
	Value      host.Raw `json:"value,omitempty"`
}

// Events turns answers of the log into messages.
//
// The deletion of an instance or a namespace is an event of the log for each entry. These events
// are adjacent, and become one message with the sequence of the last one. So the position of a
// follower is never between two of them.
type Events struct {
	begun   bool
	at      uint64   // the follower's position
	waiting *Message // of a deletion that may have more events
	version uint64   // of the commit of the deletion
	names   []string // of the deleted instance, or instance and namespace
}

// Pending reports whether a message waits for later events of the log.
func (s *Events) Pending() bool { return s.waiting != nil }

// Read returns the messages of an answer. The very first message says where the events begin.
func (s *Events) Read(out *kv.FeedOutput) []Message {
	var list []Message
	if out.Gap != nil || len(out.Events) == 0 {
		list = s.end(list)
	}
	before := out.Next
	if len(out.Events) > 0 {
		before = out.Events[0].Sequence - 1
	}
	if !s.begun {
		list, s.begun = append(list, where(before, out.Life)), true
	}
	if out.Gap != nil {
		list = append(list, Message{before, gap, out.Gap})
	}
	for i := range out.Events {
		list = s.add(list, &out.Events[i])
	}
	if s.waiting != nil && s.waiting.Sequence < out.Next {
		list = s.end(list)
	}
	if n := len(list); n > 0 {
		s.at = list[n-1].Sequence
	}
	if s.waiting == nil && s.at < out.Next {
		list, s.at = append(list, where(out.Next, out.Life)), out.Next
	}
	return list
}

func where(sequence uint64, life string) Message {
	return Message{sequence, position, map[string]string{"life": life}}
}

// end adds the waiting message.
func (s *Events) end(list []Message) []Message {
	if s.waiting != nil {
		list, s.waiting = append(list, *s.waiting), nil
	}
	return list
}

// add adds the message of an event, if it has one.
func (s *Events) add(list []Message, e *kv.Event) []Message {
	names, whole := namesOf(e.Key)
	// A range of keys may end within a namespace, so it has a message for each record.
	prefix := e.Range != nil && e.Range.Start == nil && e.Range.End == nil && len(e.Range.Prefix) <= 3
	if s.waiting != nil {
		if n := len(s.names); prefix && e.Version == s.version && len(names) >= n && slices.Equal(names[:n], s.names) {
			s.waiting.Sequence = e.Sequence
			return list
		}
		list = s.end(list)
	}
	m := Message{Sequence: e.Sequence}
	switch n := len(names); {
	case !whole || n != 1 && n != 3:
		return list
	case n == 1 && e.Op == kv.OpPut:
		in := read(names[0], &kv.Entry{Value: e.Value})
		if in == nil {
			return list
		}
		m.Type, m.Payload = instanceUpdated, in.metadata()
		if in.fresh() {
			m.Type = instanceCreated
		}
	case n == 1:
		m.Type, m.Payload, names = instanceDeleted, names[0], names[:1]
	case prefix:
		m.Type, m.Payload, names = namespaceCleared,
			map[string]string{"instanceId": names[0], "namespace": names[1]}, names[:2]
	case e.Op == kv.OpPut:
		m.Type, m.Payload = recordSet, recordPayload{names[0], names[1], names[2], e.Value}
	default:
		m.Type, m.Payload = recordDeleted, recordPayload{names[0], names[1], names[2], nil}
	}
	if prefix {
		s.waiting, s.version, s.names = &m, e.Version, names
		return list
	}
	return append(list, m)
}

// namesOf returns the names in a key after the first part, and whether the key has nothing else.
func namesOf(key kv.Key) (names []string, whole bool) {
	for _, p := range key[1:] {
		name, is := p.(string)
		if !is {
			return names, false
		}
		names = append(names, name)
	}
	return names, true
}

// metadata returns the instance in the form of events.
func (in *instance) metadata() any {
	return struct {
		ID          string          `json:"id"`
		Name        string          `json:"name"`
		Description json.RawMessage `json:"description,omitempty"`
		CreatedAt   json.RawMessage `json:"createdAt,omitempty"`
		UpdatedAt   json.RawMessage `json:"updatedAt,omitempty"`
	}{in.id, in.name(), in.document["description"], in.document["createdAt"], in.document["updatedAt"]}
}
