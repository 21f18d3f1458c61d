package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/kerneltest"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/trace"
	"github.com/cairn-run/cairn/workflow"
)

// TestPartsConform runs the conformance suite on each part of a node, in the composition that a
// node has.
func TestPartsConform(t *testing.T) {
	var names []string
	for _, s := range conforming() {
		names = append(names, s.Part)
		s.New = func(o options.Options) (*kernel.Kernel, error) {
			n, err := New(Options{Options: o, Traces: trace.Options{Off: true}, UsageOff: true})
			if err != nil {
				return nil, err
			}
			return n.Kernel, nil
		}
		t.Run(s.Part, func(t *testing.T) { kerneltest.Run(t, s) })
	}
	for _, p := range Parts(&Options{Traces: trace.Options{Off: true}}) {
		// these only read, count beside the turns, outlive actors, or have no rows
		if !slices.Contains(names, p.Name()) && p.Name() != "trace" && p.Name() != "usage" && p.Name() != "audit" && p.Name() != "state" {
			t.Errorf("the suite is not run on the part %s", p.Name())
		}
	}
}

// workTime is how long the work of a use takes.
const workTime = 10 * time.Second

// conforming describes how the suite uses each part.
func conforming() []kerneltest.Subject {
	return []kerneltest.Subject{
		{
			Part: "kv", Rests: 2 * time.Hour, // the keys of an hour expire together
			Use: func(t host.Turn, n int) error {
				return errors.Join(t.KVPut(packed("k", n), nil, host.EncodedBytes, time.Time{}),
					t.KVPut(packed("x", n), nil, host.EncodedBytes, t.Now().Add(workTime)))
			},
			Read: usesInKV,
		},
		{ // the handler gets the entry when it expires
			Part: "kv", Ends: workTime + 2*time.Second, Rests: 2 * time.Hour,
			Declare: func(b *host.Behavior) {
				b.Maps = []host.Map{{Name: "m", Log: true, LogFor: time.Minute, Handler: "changed"}}
			},
			Use: func(t host.Turn, n int) error {
				return errors.Join(t.KVPut(packed("k", n), nil, host.EncodedBytes, time.Time{}),
					t.KVPut(append([]byte("\x02m\x00"), packed("", n)...), nil, host.EncodedBytes, t.Now().Add(workTime)))
			},
			Read: usesInKV,
		},
		{ // each use has an attribute of its own, as far as there are some
			Part: "attribute",
			Declare: func(b *host.Behavior) {
				for i := range host.MaxAttributes {
					b.Attributes = append(b.Attributes, host.Attribute{Name: "a" + strconv.Itoa(i), Kind: host.StringAttribute})
				}
			},
			Use: func(t host.Turn, n int) error {
				stored, _, err := t.Attribute(n % host.MaxAttributes)
				if err != nil {
					return err
				}
				stored.Kind, stored.Text = host.StringAttribute, fmt.Sprint(stored.Text, n, ",")
				return t.SetAttribute(n%host.MaxAttributes, stored)
			},
			Read: func(r host.Reader) (seen []int, err error) {
				var texts strings.Builder
				for i := range host.MaxAttributes {
					stored, _, err := r.Attribute(i)
					if err != nil {
						return nil, err
					}
					texts.WriteString(stored.Text)
				}
				all := strings.FieldsFunc(texts.String(), func(c rune) bool { return c == ',' })
				return numbers(all, nil, func(n string) string { return n })
			},
		},
		{
			Part: "alarm", Ends: workTime, Shows: kerneltest.ShowsOpen,
			Declare: func(b *host.Behavior) { b.Alarms = []host.AlarmMethod{{Name: "ring", Handler: "ring"}} },
			Use: func(t host.Turn, n int) error {
				return t.SetAlarm(host.Alarm{Name: "ring", Instance: strconv.Itoa(n), Due: t.Now().Add(workTime),
					Payload: kerneltest.Payload(n)})
			},
			Show: func(k *kernel.Kernel, a host.Address) (seen []int, err error) {
				var out host.AlarmListOutput
				err = asked(k, a, host.AlarmList, nil, &out)
				return numbers(out.Alarms, err, func(alarm host.ListedAlarm) string { return alarm.Instance })
			},
		},
		{
			Part: "schedule", Ends: workTime, Shows: kerneltest.ShowsOpen,
			Declare: func(b *host.Behavior) { b.Schedules = []host.ScheduleMethod{{Name: "tick", Handler: "tick"}} },
			Use: func(t host.Turn, n int) error {
				at := t.Now().Add(workTime)
				_, err := t.SetSchedule(host.Schedule{Name: "tick", Instance: strconv.Itoa(n), At: &at, Payload: kerneltest.Payload(n)})
				return err
			},
			Read: func(r host.Reader) (seen []int, err error) {
				all, err := r.Schedules("tick")
				all = slices.DeleteFunc(all, func(s host.Schedule) bool { return s.Next == nil })
				return numbers(all, err, func(s host.Schedule) string { return s.Instance })
			},
		},
		{
			Part: "queue", Ends: workTime, Shows: kerneltest.ShowsOpen,
			Declare: func(b *host.Behavior) {
				b.Queues, b.Convert = []host.Queue{{Name: "work", Handler: "work"}}, convertAny
			},
			Use: func(t host.Turn, n int) error {
				_, err := t.Enqueue("work", []host.Enqueue{{Body: kerneltest.Payload(n), Delay: workTime}})
				return err
			},
			Show: func(k *kernel.Kernel, a host.Address) (seen []int, err error) {
				var out host.QueueListOutput
				err = asked(k, a, host.QueuePeek, host.QueueListInput{Queue: "work"}, &out)
				return numbers(out.Messages, err, func(m host.ListedMessage) string { return string(m.Body) })
			},
		},
		{
			Part:    "stream",
			Declare: func(b *host.Behavior) { b.Streams = []host.Stream{{Name: "log"}} },
			Use: func(t host.Turn, n int) error {
				_, err := t.StreamAppend("log", [][]byte{kerneltest.Payload(n)})
				return err
			},
			Read: func(r host.Reader) (seen []int, err error) {
				page, err := r.StreamRead("log", 0, 1000)
				for _, item := range page.Items {
					n, err := kerneltest.Number(item.Data)
					if err != nil {
						return nil, err
					}
					seen = append(seen, n)
				}
				return seen, err
			},
		},
		{
			Part:    "event",
			Declare: func(b *host.Behavior) { b.Events = []host.Event{{Name: "said"}} },
			Use:     func(t host.Turn, n int) error { return t.Emit(0, []byte(strconv.Itoa(n))) },
			Show: func(k *kernel.Kernel, a host.Address) (seen []int, err error) {
				return seen, follow(k, a, true, func(n int) { seen = append(seen, n) })
			},
			Listen: func(k *kernel.Kernel, a host.Address, got func(int)) error {
				go func() {
					for { // one life of the actor after the other
						if code := host.CodeOf(follow(k, a, false, got)); code != host.Destroyed {
							return
						}
					}
				}()
				return nil
			},
		},
		{
			Part: "conn", Ends: workTime + host.DefaultConnectionGrace, Shows: kerneltest.ShowsOpen,
			Declare: func(b *host.Behavior) {
				b.Connections = host.ConnectionMethods{Connect: "connect", Disconnect: "disconnect"}
			},
			Use: func(host.Turn, int) error { return nil }, // the turn that connects uses the part
			Call: func(k *kernel.Kernel, a host.Address, input []byte) error {
				l, err := (&Node{k}).Connect(context.Background(), a, host.ConnectRequest{Params: input})
				if err == nil {
					time.AfterFunc(workTime, func() { _ = l.Close(context.Background(), true) }) // the client is lost
				}
				return err
			},
			Read: func(r host.Reader) (seen []int, err error) {
				all, err := r.Connections("", 1000)
				for _, c := range all {
					seen = append(seen, useOf(c.Params))
				}
				return seen, err
			},
		},
		{
			Part: "mail", Ends: kerneltest.Busy, Elsewhere: true, Awake: true,
			Use: func(t host.Turn, n int) error {
				return t.Send(&host.Message{Type: kerneltest.Type, Key: kerneltest.Target.Key, Method: "end", Input: kerneltest.Payload(n)})
			},
		},
		{
			Part: "sqlite",
			Declare: func(b *host.Behavior) {
				b.Migrations = []host.Migration{{Name: "uses", SQL: "CREATE TABLE uses (n INTEGER)"}}
			},
			Use: func(t host.Turn, n int) error {
				tx, err := t.SQL().Begin()
				if err != nil {
					return err
				}
				if _, err := tx.Exec("INSERT INTO uses VALUES (?)", n); err != nil {
					return err
				}
				return tx.Commit()
			},
			Open: func(t host.Turn) {
				if tx, err := t.SQL().BeginTx(t, nil); err == nil {
					_, _ = tx.Exec("INSERT INTO uses VALUES (-1)")
					_, _ = tx.QueryContext(t, "SELECT n FROM uses")
				}
			},
			Read: func(r host.Reader) (seen []int, err error) {
				rows, err := r.SQL().Query("SELECT n FROM uses")
				if err != nil {
					return nil, err
				}
				defer rows.Close()
				for rows.Next() {
					var n int
					if err := rows.Scan(&n); err != nil {
						return nil, err
					}
					seen = append(seen, n)
				}
				return seen, rows.Err()
			},
		},
		{
			Part: "task", Ends: workTime, Awake: true, Mortal: true,
			Use: func(t host.Turn, n int) error {
				return t.Go("work", func(task host.Task) error {
					select {
					case <-task.Done():
						return task.Err()
					case <-time.After(workTime):
					}
					return task.Turn(task, func(state any, _ host.Turn) error {
						kerneltest.End(state, n)
						return nil
					})
				})
			},
		},
		{
			Part: "run", Ends: workTime,
			Declare: func(b *host.Behavior) {
				b.Queues = []host.Queue{{Name: "in", ByRun: true}}
				b.Workflows = []host.Workflow{{
					Name: "work", Handler: "work", Program: working.Program(),
					Input:  func(_ host.Codec, value []byte) ([]byte, error) { return value, nil },
					Output: func(output []byte, _ host.Codec) ([]byte, error) { return output, nil },
				}}
			},
			Use: func(t host.Turn, n int) error {
				if _, err := t.StartRun(host.RunStart{Workflow: "work", Codec: host.CBOR, Input: kerneltest.Payload(0)}); err != nil {
					return err
				}
				_, err := t.Enqueue("in", []host.Enqueue{{Body: kerneltest.Payload(n)}})
				return err
			},
		},
		{
			Part: "admin", Operates: true, Stays: keyspace.WakePaused,
			Call: func(k *kernel.Kernel, a host.Address, input []byte) error {
				n := int64(useOf(input))
				return operate(k, a, host.LimitsSet, host.ActorLimits{Connections: &n}, new(host.ActorLimits))
			},
			Show: func(k *kernel.Kernel, a host.Address) ([]int, error) {
				st, err := (&Node{k}).Lookup(context.Background(), a)
				if err != nil || st.Limits == nil {
					return nil, err
				}
				return []int{int(*st.Limits.Connections)}, nil
			},
		},
		{
			Part: "token", Operates: true, Rests: 3 * time.Hour, // the keys of an hour expire together
			Call: func(k *kernel.Kernel, a host.Address, input []byte) error {
				create := token.CreateInput{Rights: []string{"read"}, Label: strconv.Itoa(useOf(input)), TTLMS: time.Hour.Milliseconds()}
				return operate(k, a, host.TokenCreate, create, new(token.CreateOutput))
			},
			Show: func(k *kernel.Kernel, a host.Address) ([]int, error) {
				var out token.ListOutput
				err := asked(k, a, host.TokenList, nil, &out)
				seen, err := numbers(out.Tokens, err, func(t token.Token) string { return t.Label })
				if len(seen) > 0 {
					seen = []int{slices.Max(seen)}
				}
				return seen, err
			},
		},
	}
}

// working is a workflow that takes one message after the other.
var working = workflow.NewFunction("work", func(ctx workflow.Context, _ int) (int, error) {
	for i := 0; ; i++ {
		m, err := workflow.Receive(ctx, fmt.Sprint("take ", i), workflow.Inbox[int]{Name: "in"})
		if err != nil {
			return 0, err
		}
		if err := workflow.Sleep(ctx, fmt.Sprint("sleep ", i), workTime); err != nil {
			return 0, err
		}
		n, err := workflow.Step(ctx, fmt.Sprint("step ", i), func(*workflow.StepCtx) (int, error) { return m.Body, nil })
		if err != nil {
			return 0, err
		}
		if _, err := workflow.Update(ctx, fmt.Sprint("end ", i), func(tx *workflow.Tx) (int, error) {
			kerneltest.End(tx.Host().(host.RunTurn).Instance(), n)
			return 0, nil
		}); err != nil {
			return 0, err
		}
	}
})

// numbers returns the numbers of items, which have them as texts.
func numbers[T any](items []T, err error, text func(T) string) (seen []int, _ error) {
	for _, item := range items {
		n, aerr := strconv.Atoi(text(item))
		if aerr != nil {
			return nil, aerr
		}
		seen = append(seen, n)
	}
	return seen, err
}

// keysOf returns the packed keys of a page.
func keysOf(r host.Reader, q host.KVQuery) (keys [][]byte, err error) {
	var page host.KVPage
	err = r.KVList(q, &page)
	for i := range page.Entries {
		keys = append(keys, page.Entries[i].Key)
	}
	return keys, err
}

// packed is a key of the key-value store.
func packed(prefix string, n int) []byte { return fmt.Appendf(nil, "\x02%s%05d\x00", prefix, n) }

// asked calls a built-in method.
func asked(k *kernel.Kernel, a host.Address, method string, in, out any) error {
	var input []byte
	if in != nil {
		input, _ = json.Marshal(in)
	}
	reply, err := k.Call(context.Background(), &host.Request{Address: a, Method: method, Codec: host.JSON, Input: input})
	if err != nil {
		return err
	}
	return json.Unmarshal(reply.Output, out)
}

// useOf returns the number of a use from the input of its call.
func useOf(input []byte) int {
	var in struct{ N int }
	if err := json.Unmarshal(input, &in); err != nil {
		panic(err)
	}
	return in.N
}

// operate calls a method that makes no actor; if there is none, it makes the actor before.
func operate(k *kernel.Kernel, a host.Address, method string, in, out any) error {
	err := asked(k, a, method, in, out)
	if host.CodeOf(err) != host.NotFound {
		return err
	}
	_, err = k.Call(context.Background(), &host.Request{Address: a, Create: true, Codec: host.JSON})
	return errors.Join(err, asked(k, a, method, in, out))
}

// usesInKV returns the numbers of the keys that begin with k.
func usesInKV(r host.Reader) ([]int, error) {
	keys, err := keysOf(r, host.KVQuery{Start: []byte("\x02k"), End: []byte("\x02l")})
	return numbers(keys, err, func(key []byte) string { return string(key[2 : len(key)-1]) })
}

// follow hands events to got: the history, or all events from now on until the subscription ends.
func follow(k *kernel.Kernel, a host.Address, kept bool, got func(int)) error {
	s, err := (&Node{k}).Subscribe(context.Background(), a, host.Subscription{Resume: kept})
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := context.Background()
	if kept {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
	}
	for {
		d, err := s.Next(ctx)
		for _, e := range d.Events {
			n, err := strconv.Atoi(string(e.Data))
			if err != nil {
				return err
			}
			got(n)
		}
		if kept && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
