package node

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
)

// A player is where the steps of a scenario run: a turn, a hook or a task.
type player struct {
	state *puppetState
	turn  host.Turn   // nil in a query and in a task outside of its turns
	read  host.Reader // the turn or query
	tx    *sql.Tx     // of the step "tx"
	task  host.Task
	tick  *host.Tick
	cause *host.Error
	msg   *host.Received
	chg   *host.KVChange
	rang  string
	i     int // of the step "repeat"
}

// deed makes a turn of steps.
func (s *scene) deed(body []string) deed {
	return func(p *puppet, t host.Turn) error {
		return s.run(&player{state: &p.s, turn: t, read: t, tick: p.tick, cause: p.cause, msg: p.msg, chg: p.change, rang: p.rang}, body)
	}
}

// glance makes a query of steps.
func (s *scene) glance(body []string) glance {
	return func(state *puppetState, r host.Reader) error { return s.run(&player{state: state, read: r}, body) }
}

// puppets makes a type from "idle 1m", "limits Name=value,...", "queue name" and hooks like "wake {
// steps }".
func (s *scene) puppets(name string, w []string) *puppetType {
	d := &puppetType{name: name, outside: true, events: []host.Event{{Name: "said"}, {Name: "private"}}}
	hooks := map[string]*deed{"wake": &d.wake, "sleep": &d.sleep, "create": &d.create, "destroy": &d.onDestroy,
		"alarm": &d.alarm, "tick": &d.tick,
		"message": &d.message, "change": &d.change, "connect": &d.connect, "disconnect": &d.disconnect, "subscribe": &d.subscribe}
	for len(w) > 0 {
		hook := hooks[w[0]]
		switch {
		case hook != nil:
			depth, end := 0, 1
			for ; end == 1 || depth > 0; end++ {
				depth += map[string]int{"{": 1, "}": -1}[w[end]]
			}
			*hook, w = s.deed(w[2:end-1]), w[end:]
			continue
		case w[0] == "idle":
			d.idle = s.duration(w[1])
		case w[0] == "limits":
			s.fill(&d.limits, strings.Split(w[1], ","))
		case w[0] == "queue": // a queue with a handler if there is a hook for messages before it
			q := host.Queue{Name: w[1]}
			if d.message != nil {
				q.Handler = "puppet.message"
			}
			d.queues = append(d.queues, q)
		case w[0] == "map": // map NAME=EVENTS: a map with a log of so many events, handled if there is a hook for changes before it
			name, events, _ := strings.Cut(w[1], "=")
			m := host.Map{Name: name, Log: true, LogEvents: int64(s.number(events))}
			if d.change != nil {
				m.Handler = "puppet.change"
			}
			d.maps = append(d.maps, m)
		case w[0] == "sql": // its callers may run SQL
			d.openSQL = w[1] == "open"
		case w[0] == "migrations":
			d.migrations = schema[:s.number(w[1])]
		default:
			s.fatal("a type has no %q", w[0])
		}
		w = w[2:]
	}
	return d
}

func (s *scene) run(x *player, body []string) error {
	for _, step := range steps(body) {
		w, inner := block(step)
		if err := s.step(x, w, inner); err != nil {
			return err
		}
	}
	return nil
}

// text joins words, and replaces "$due" and the like.
func (x *player) text(w []string) string {
	out := strings.ReplaceAll(strings.Join(w, " "), "$i", strconv.Itoa(x.i))
	if x.tick != nil {
		out = strings.NewReplacer("$due", since(&x.tick.Due), "$run", strconv.Itoa(int(x.tick.Run)), "$missed",
			strconv.Itoa(int(x.tick.Missed)), "$attempt", strconv.Itoa(x.tick.Attempt)).Replace(out)
	}
	if x.turn != nil && strings.Contains(out, "$") {
		now := x.turn.Now()
		out = strings.NewReplacer("$now", since(&now), "$alarm", x.rang, "$span", x.turn.Traceparent()).Replace(out)
	}
	if x.msg != nil {
		out = strings.NewReplacer("$body", body(x.msg), "$queue", x.msg.Queue, "$attempt", strconv.Itoa(x.msg.Attempt)).Replace(out)
	}
	if c := x.chg; c != nil {
		text := fmt.Sprintf("%s %s=%s", c.Cause, c.Key[4:len(c.Key)-1], c.Value)
		out = strings.NewReplacer("$change", text, "$missed", strconv.Itoa(int(c.Missed))).Replace(out)
	}
	if x.cause != nil {
		out = strings.ReplaceAll(out, "$cause", x.cause.Message)
	}
	if x.task != nil && x.task.Err() != nil {
		out = strings.ReplaceAll(out, "$cause", describe(context.Cause(x.task)))
	}
	return out
}

// body returns the body of a message that a step has put into a queue.
func body(m *host.Received) (text string) {
	_ = cbor.Unmarshal(m.Body, &text)
	return text
}

func (s *scene) step(x *player, w, body []string) error {
	t := x.turn
	rest := x.text(w[min(2, len(w)):])
	switch w[0] {
	case "add":
		x.state.N += s.number(w[1])
	case "log":
		x.state.Log = append(x.state.Log, x.text(w[1:]))
	case "say": // prints
		s.say("%s", x.text(w[1:]))
	case "tell", "plan":
		s.observe(x, w)
	case "try":
		if err := s.run(x, body); err != nil {
			s.say("%s: %s", x.text(w[1:]), describe(err))
		}
	case "hold":
		<-s.gate(w[1])
	case "sleep":
		time.Sleep(s.duration(w[1]))
	case "told":
		<-x.task.Done()
	case "if", "unless":
		if s.is(w[1]) == (w[0] == "if") {
			return s.run(x, body)
		}
	case "set":
		s.set(w[1], true)
	case "fail":
		return host.Errorf(host.Code(w[1]), "%s", rest)
	case "error":
		return errors.New(x.text(w[1:]))
	case "panic":
		panic("told to")
	case "goexit": // as a failed assertion of package testing does
		runtime.Goexit()
	case "is": // is $body TEXT { steps }
		if x.text(w[1:2]) == w[2] {
			return s.run(x, body)
		}
	case "repeat":
		for x.i = range s.number(w[1]) {
			if err := s.run(x, body); err != nil {
				return err
			}
		}
	case "send":
		a := addr(w[1])
		return t.Send(&host.Message{Type: a.Type, Key: a.Key, Method: "do", Input: remember(s.deed(body))})
	case "large": // large KEY [BYTES]: sends a message that fails, and by itself one that is too large
		n := mail.MaxMessageBytes + 1
		if len(w) > 2 {
			n = s.number(w[2])
		}
		return t.Send(&host.Message{Type: "p", Key: []string{w[1]}, Method: "do", Input: make([]byte, n)})
	case "later":
		return host.Errorf(host.FailedPrecondition, "later").With("retry_at", w[1])
	case "call":
		node := host.Node(t)
		ctx := context.Context(t)
		if t == nil {
			node, ctx = x.task, x.task
		}
		_, err := node.Call(ctx, &host.Request{Address: addr(w[1]), Method: "do", Codec: host.JSON, Input: remember(s.deed(body))})
		return err
	case "verb":
		_, err := x.read.Call(x.read, &host.Request{Address: addr(w[1]), Method: w[2], Codec: host.JSON})
		return err
	case "go":
		return t.Go(w[1], func(task host.Task) error { return s.run(&player{task: task}, body) })
	case "turn": // of a task; "turn 1s" gives up after a second, "turn late" goes on when the task has been told to end
		ctx, cancel := context.Context(x.task), context.CancelFunc(func() {})
		if len(w) > 1 && w[1] == "late" {
			ctx = context.Background()
		} else if len(w) > 1 && w[1] == "inner" {
			ctx = t
		} else if len(w) > 1 {
			ctx, cancel = context.WithTimeout(ctx, s.duration(w[1]))
		}
		defer cancel()
		return x.task.Turn(ctx, func(state any, t host.Turn) error {
			return s.run(&player{state: state.(*puppetState), turn: t, read: t, task: x.task}, body)
		})
	case "done": // commits the turns before
		t.Done()
	case "destroy":
		t.DestroySelf()
	case "ring":
		return t.SetAlarm(host.Alarm{Name: "ring", Instance: w[1], Due: t.Now().Add(s.duration(w[2]))})
	case "free": // space on the disk
		s.g.disk.SetFree(1 << 40)
	case "silence":
		ok, err := t.CancelAlarm("ring", w[1])
		s.say("%s was set: %t", w[1], ok)
		return err
	case "schedule": // schedule 1m [missed]
		r := host.Schedule{Name: "tick", Every: s.duration(w[1]).Milliseconds(), Missed: host.Missed(rest)}
		_, err := t.SetSchedule(r)
		return err
	case "cancel":
		_, err := t.CancelSchedule("tick", "")
		return err
	case "put":
		return t.KVPut([]byte(w[1]), make([]byte, s.number(w[2])), host.EncodedBytes, time.Time{})
	case "delete":
		_, err := t.KVDelete([]byte(w[1]))
		return err
	case "clear":
		_, err := t.KVDeleteRange(nil, nil)
		return err
	case "commit": // commit ?KEY KEY=VALUE -PREFIX/
		return s.commitStep(t, strings.Fields(x.text(w[1:])))
	case "kv": // kv KEY=VALUE@MS -KEY
		for _, text := range w[1:] {
			if err := s.kvStep(t, mutation(x.text([]string{text}))); err != nil {
				return err
			}
		}
	case "raw":
		return s.rawStep(t, w)
	case "entries": // says which there are
		keys, err := keysOf(x.read, host.KVQuery{})
		s.say("%s: %q", x.text(w[1:]), keys)
		return err
	case "update": // prints whether the changes of entries by the steps were undone alone
		end, err := t.(kv.Committer).KVUpdate()
		if err != nil {
			return err
		}
		undone, err := end(s.run(x, body))
		s.say("%s is undone alone: %t%s", x.text(w[1:]), undone, result("", err))
	case "emit": // emit said TEXT
		return t.Emit(map[string]int{"said": 0, "private": 1}[w[1]], []byte(`"`+rest+`"`))
	case "enqueue": // enqueue QUEUE BODIES...
		all := []host.Enqueue{{Body: []byte("1")}}
		for i, text := range w[2:] {
			all = append(all[:i], host.Enqueue{Body: cborOf(text)[0]})
		}
		_, err := t.Enqueue(w[1], all)
		return err
	case "append":
		values := []any{}
		for _, v := range w[2:] {
			values = append(values, v)
		}
		_, err := t.StreamAppend(w[1], cborOf(values...))
		return err
	case "close":
		return t.StreamClose(w[1])
	case "kick": // closes each connection
		all, err := t.Connections("", 0)
		for _, c := range all {
			if _, err := t.CloseConnection(c.ID, host.Errorf(host.PermissionDenied, "out")); err != nil {
				return err
			}
		}
		return err
	case "to", "except": // to CLIENTS TEXT: emits it to the first of them, or to all others
		ids := strings.Split(w[1], ",")
		for i, name := range ids {
			if l := s.clients[name]; l != nil {
				ids[i] = l.Welcome().Connection
			}
		}
		if w[0] == "to" {
			return t.EmitTo(0, []byte(`"`+rest+`"`), ids[0], ids[1:])
		}
		return t.EmitTo(0, []byte(`"`+rest+`"`), "", ids)
	case "mark": // mark CLIENT TEXT: sets the state of its connection
		return t.SetConnectionState(s.clients[w[1]].Welcome().Connection, []byte(rest))
	case "query":
		node, ctx := host.Node(t), context.Context(t)
		_, err := node.Call(ctx, &host.Request{Address: addr(w[1]), Method: "look", Codec: host.JSON, Input: remember(s.glance(body))})
		return err
	case "sql":
		if x.tx != nil {
			_, err := x.tx.ExecContext(x.read, x.text(w[1:]))
			return err
		}
		return exec(x.read, x.text(w[1:]))
	case "tx": // tx commit { steps } or tx rollback { steps }
		tx, err := x.read.SQL().BeginTx(x.read, nil)
		if err != nil {
			return err
		}
		in := *x
		if in.tx = tx; w[1] == "rollback" {
			return errors.Join(s.run(&in, body), tx.Rollback())
		}
		return errors.Join(s.run(&in, body), tx.Commit())
	case "insert":
		return insert(x.text(w[1:]))(nil, t)
	case "note":
		return note(x.text(w[1:]))(nil, t)
	case "notes": // says what the database has
		all, err := bodies(x.read)
		s.say("%v", all)
		return err
	default:
		s.t.Errorf("%s: no step %q", s.at, w)
	}
	return nil
}
