package hosttest

import (
	"encoding/json"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
)

// The methods of rooms, by index.
const (
	add = iota
	total
	create
	echo
	none
	say
	whisper
	fail
	hold
	kick
	leave
)

// Room returns the actor type "room", for tests of gateways and clients.
//
// Its actions are add, which adds a number; echo, which answers with its input; none, which answers
// nothing; say, which emits the event "said" with its input; whisper, which says it only to the
// client that calls; fail, which fails with the code that it is given; hold, which waits for the
// end of its context; kick, which closes all connections; leave, which destroys the actor. Its
// query total returns the sum, and its creation create sets it. It keeps 3 events, and 3 items of
// its stream "tokens". Workers receive the messages of its queue "mail".
func Room() *host.Behavior {
	b := &host.Behavior{
		Type: "room", StateVersion: 1, Limits: host.Limits{EventHistory: 3},
		Events:  []host.Event{{Name: "said"}, {Name: "left"}},
		Streams: []host.Stream{{Name: "tokens", Items: 3, External: true}},
		Queues:  []host.Queue{{Name: "mail"}},
		New:     func() host.Instance { return new(room) },
		Decode:  func(_ uint64, blob []byte) (any, error) { return decodeRoom(blob) },
		Query: func(_ host.Reader, _ int, state any, _ host.Codec, _, out []byte) ([]byte, error) {
			return strconv.AppendInt(out, int64(state.(int)), 10), nil
		},
		Convert: func(_ host.ValueKind, _ int, from host.Codec, value []byte, to host.Codec, out []byte) ([]byte, error) {
			switch {
			case from == host.JSON && !json.Valid(value):
				return nil, host.Errorf(host.InvalidArgument, "no JSON")
			case from == to:
				return append(out, value...), nil
			case from == host.JSON: // as a text of CBOR, of up to 255 bytes
				return append(append(out, 0x78, byte(len(value))), value...), nil
			}
			return append(out, value[2:]...), nil
		},
	}
	for i, name := range []string{"add", "total", "create", "echo", "none", "say", "whisper",
		"fail", "hold", "kick", "leave"} {
		kind := host.Action
		if i == total {
			kind = host.Query
		} else if i == create {
			kind = host.Creation
		}
		b.Methods = append(b.Methods, host.Method{Name: name, Kind: kind, Handler: "room." + name})
	}
	return b
}

// A room is the instance of an actor of the type room. The hooks that are left out are not called.
type room struct {
	host.Instance
	sum int
}

func decodeRoom(blob []byte) (int, error) {
	if blob == nil {
		return 0, nil
	}
	return strconv.Atoi(string(blob))
}

func (r *room) Load(_ uint64, blob []byte) (err error) { r.sum, err = decodeRoom(blob); return err }
func (r *room) Save(dst []byte) ([]byte, error)        { return strconv.AppendInt(dst, int64(r.sum), 10), nil }
func (r *room) Create(host.Turn) error                 { return nil }
func (r *room) Wake(host.Turn) error                   { return nil }
func (r *room) Sleep(host.Turn) error                  { return nil }
func (r *room) Destroy(host.Turn) error                { return nil }

func (r *room) Act(t host.Turn, method int, _ host.Codec, input, out []byte) ([]byte, error) {
	switch method {
	case add, create:
		n, err := strconv.Atoi(string(input))
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "%s is no number", input)
		}
		r.sum += n
		return strconv.AppendInt(out, int64(r.sum), 10), nil
	case echo:
		return append(out, input...), nil
	case say:
		return out, t.Emit(0, append([]byte(nil), input...))
	case whisper:
		return out, t.EmitTo(0, append([]byte(nil), input...), t.Caller(), nil)
	case fail:
		r.sum = -1 // nothing of this may remain
		if err := t.Emit(0, []byte("0")); err != nil {
			return nil, err
		}
		var code host.Code
		if err := json.Unmarshal(input, &code); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "%s is no code", input)
		}
		return nil, host.Errorf(code, "why").With("a", "b")
	case hold:
		<-t.Done()
		return nil, t.Err()
	case kick:
		all, err := t.Connections("", 0)
		for _, c := range all {
			if _, err := t.CloseConnection(c.ID, host.Errorf(host.PermissionDenied, "kicked")); err != nil {
				return nil, err
			}
		}
		return out, err
	case leave:
		t.DestroySelf()
	}
	return out, nil
}
