package kerneltest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// A deed is what happens in a turn besides the use of the part.
type deed string

const (
	succeeds deed = ""
	fails    deed = "fail"
	panics   deed = "panic"
	hangs    deed = "hang"    // ignores its deadline, and uses the part when the turn is over
	destroys deed = "destroy" // the turn destroys its actor
	perhaps  deed = "perhaps" // succeeds, unless the turn after it takes its commit along
	holds    deed = "hold"    // uses nothing and waits for trial.open
	litters  deed = "litter"  // uses nothing and writes rows of the wake index that nothing stands behind
)

// failing reports whether the turn must fail.
func (d deed) failing() bool { return d == fails || d == panics || d == hangs }

// panicText is the value with which handlers panic.
const panicText = "kerneltest: the handler panics"

// An order is the input of a call.
type order struct {
	N    int  `json:"n"`
	Then deed `json:"then"`
}

// record is the state of an actor.
type record struct {
	Used  []int // the uses whose turn succeeded
	Ended []int // the uses whose work has ended here
}

// An instance is an actor of the suite.
type instance struct {
	x *trial
	record
}

// End records that the work of use n has ended. state is an instance or its state.
func End(state any, n int) {
	r, ok := state.(*record)
	if !ok {
		r = &state.(*instance).record
	}
	r.Ended = append(r.Ended, n)
}

// Payload encodes a number as an integer of CBOR.
func Payload(n int) []byte { return binary.BigEndian.AppendUint16([]byte{0x19}, uint16(n)) }

// Number decodes the result of Payload.
func Number(payload []byte) (int, error) {
	if len(payload) != 3 || payload[0] != 0x19 {
		return 0, fmt.Errorf("kerneltest: the payload is %x", payload)
	}
	return int(binary.BigEndian.Uint16(payload[1:])), nil
}

func (a *instance) handle(t host.Turn, input []byte) error {
	var o order
	if err := json.Unmarshal(input, &o); err != nil {
		return err
	}
	switch o.Then {
	case holds:
		<-a.x.gate()
		return nil
	case litters:
		return a.x.litter(kernel.CallerOf(t).Waiter)
	}
	if err := a.x.s.Use(t, o.N); err != nil {
		return err
	}
	a.Used = append(a.Used, o.N)
	if o.Then.failing() && a.x.s.Open != nil {
		a.x.s.Open(t)
	}
	switch o.Then {
	case fails:
		return host.Errorf(host.FailedPrecondition, "the handler fails")
	case panics:
		panic(panicText)
	case hangs:
		<-a.x.hung
		_ = a.x.s.Use(t, o.N+late)
	case destroys:
		t.DestroySelf()
	}
	return nil
}

// late is added to the number of a use in a turn that is over.
const late = 10_000

func (a *instance) end(payload []byte) error {
	n, err := Number(payload)
	if err == nil {
		End(a, n)
	}
	return err
}

func (a *instance) Load(_ uint64, blob []byte) error {
	a.record = record{}
	if blob == nil {
		return nil
	}
	return json.Unmarshal(blob, &a.record)
}

func (a *instance) Save(dst []byte) ([]byte, error) {
	b, err := json.Marshal(&a.record)
	return append(dst, b...), err
}

// The methods of the behavior.
const (
	methodUse = iota
	methodEnd
	methodLook
)

func (a *instance) Act(t host.Turn, method int, _ host.Codec, input, out []byte) ([]byte, error) {
	if method == methodUse {
		return out, a.handle(t, input)
	}
	time.Sleep(Busy)
	return out, a.end(input)
}

func (a *instance) Alarm(_ host.Turn, _ int, _ string, payload []byte) error { return a.end(payload) }

func (a *instance) Message(_ host.Turn, _ int, m *host.Received, out []byte) ([]byte, error) {
	return out, a.end(m.Body)
}

func (a *instance) Change(_ host.Turn, _ int, c *host.KVChange) error {
	if c.Cause != "expired" {
		return nil
	}
	n, err := strconv.Atoi(string(c.Key[len(c.Key)-6 : len(c.Key)-1])) // the last part is five digits
	if err == nil {
		End(a, n)
	}
	return err
}

func (a *instance) Schedule(_ host.Turn, _ int, _ *host.Tick, payload []byte) error {
	return a.end(payload)
}

func (a *instance) Connect(t host.Turn, _ *host.ConnectionState, params []byte) error {
	return a.handle(t, params)
}

func (a *instance) Disconnect(_ host.Turn, c *host.ConnectionState, _ *host.Error) error {
	var o order
	if err := json.Unmarshal(c.Params, &o); err != nil {
		return err
	}
	End(a, o.N)
	return nil
}

func (a *instance) Subscribe(host.Turn, int, *host.ConnectionState) error { return nil }
func (a *instance) State() any                                            { return &a.record }
func (a *instance) Create(host.Turn) error                                { return nil }
func (a *instance) Wake(host.Turn) error                                  { return nil }
func (a *instance) Sleep(host.Turn) error                                 { return nil }
func (a *instance) Destroy(host.Turn) error                               { return nil }

// A look is the result of a query of an actor.
type look struct {
	record
	Seen []int // what the part has
}

// behavior makes the actor type of a trial.
func (x *trial) behavior() *host.Behavior {
	decode := func(_ uint64, blob []byte) (any, error) {
		r := new(record)
		if blob == nil {
			return r, nil
		}
		return r, json.Unmarshal(blob, r)
	}
	b := &host.Behavior{
		Type: Type, StateVersion: 1, IdleTimeout: idle,
		Methods: []host.Method{
			{Name: "use", Kind: host.Action, Handler: "subject.use"},
			{Name: "end", Kind: host.Action, Handler: "subject.end"},
			{Name: "look", Kind: host.Query, Handler: "subject.look"},
		},
		New:    func() host.Instance { return &instance{x: x} },
		Decode: decode,
		Query: func(r host.Reader, method int, state any, _ host.Codec, _, out []byte) ([]byte, error) {
			if method != methodLook {
				return nil, errors.New("kerneltest: no such query")
			}
			l := look{record: *state.(*record)}
			if x.s.Read != nil {
				var err error
				if l.Seen, err = x.s.Read(r); err != nil {
					return nil, err
				}
			}
			b, err := json.Marshal(&l)
			return append(out, b...), err
		},
	}
	if x.s.Declare != nil {
		x.s.Declare(b)
	}
	return b
}
