package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
	"github.com/cairn-run/cairn/runtime/internal/part/schedule"
)

// command runs a line and returns what it prints.
func (s *scene) command(line string) string {
	line = strings.ReplaceAll(line, "$life", s.life.String())
	line = longText.ReplaceAllStringFunc(line, func(text string) string { return strings.Repeat("x", s.number(text[2:])) })
	w := words(line)
	arg := func(i int) string {
		if i < len(w) {
			return w[i]
		}
		return ""
	}
	rest := func(n int) string { return strings.Join(strings.Fields(line)[n:], " ") }
	switch w[0] {
	case "type":
		s.types = append(s.types, s.puppets(w[1], w[2:]))
	case "types": // the program has only these from the next start on
		s.g.types = slices.DeleteFunc(slices.Clone(s.types), func(d *puppetType) bool { return !slices.Contains(w[1:], d.name) })
	case "operate", "audit", "token", "revoke", "tokens", "as", "traced", "untraced", "request", "spans", "tail",
		"drain", "top", "usage":
		return s.record(line, w, rest)
	case "node":
		s.fields = w[1:]
	case "migrations": // migrations COUNT NAME SQL: of the type p, from the next start on
		all := slices.Clone(schema[:s.number(w[1])])
		for i := 2; i < len(w); i += 2 {
			all = append(all, host.Migration{Name: w[i], SQL: w[i+1]})
		}
		s.stage().types[0].migrations = all
	case "store": // store BYTES: how much memory the store has for writes, from now on
		s.stage().writeBytes = int64(s.number(w[1]))
		s.g.restart()
	case "publish": // what "published" prints from now on
		s.changes = new(changeLog)
	case "published":
		synctest.Wait()
		return strings.Join(s.changes.take(""), "\n")
	case "set", "unset":
		s.set(w[1], w[0] == "set")
	case "open":
		s.open(w[1])
	case "advance":
		time.Sleep(s.duration(w[1]))
	case "restart":
		s.stage().restart()
	case "crash":
		s.stage().crash()
	case "stop":
		s.stage().stop()
	case "start":
		s.stage().start()
	case "do": // a turn
		s.stage()
		return result("do "+w[1], s.turn(w[1], w[2:]))
	case "repeat":
		var all []string
		for i := range s.number(w[1]) {
			all = append(all, unstable.ReplaceAllString(s.command(strings.ReplaceAll(rest(2), "$i", strconv.Itoa(i))), "ID"))
		}
		return strings.Trim(strings.Join(shorten(all, 0), "\n"), "\n")
	case "kv": // kv ACTOR MUTATIONS: commits them, see stage.kv
		_, err := s.stage().commit(w[1], w[2:])
		return result("kv "+w[1], err)
	case "watch", "told", "unwatch", "follow", "read":
		return s.kvCommand(w)
	case "divide": // the bounds of watchers
		s.stage().divided()
	case "endwaits":
		s.stage().EndWaits()
	case "bg": // a command that takes its time; "join" prints its result
		job := make(chan string, 1)
		s.jobs[w[1]] = job
		s.stage()
		go func() { job <- s.command(rest(2)) }()
	case "join":
		var all []string
		for _, name := range w[1:] {
			all = append(all, name+": "+cmp.Or(<-s.jobs[name], "ok"))
		}
		return strings.Join(all, "; ")
	case "pending":
		return fmt.Sprintf("%s has not ended: %t", w[1], len(s.jobs[w[1]]) == 0)
	case "verb": // a built-in method
		input := ""
		if len(strings.Fields(line)) > 3 {
			input = rest(3)
		}
		out, err := s.call(addr(w[1]), w[2], input)
		if err != nil {
			return result(w[2], err)
		}
		return strings.TrimSuffix(w[2]+": "+out, ": ")
	case "destroy":
		return result("destroy", s.stage().Destroy(s.t.Context(), addr(w[1])))
	case "n":
		return strings.Join(s.each(w[1:], func(st *puppetState) string { return fmt.Sprint(st.N) }), ", ")
	case "log":
		return strings.Join(s.each(w[1:], func(st *puppetState) string { return fmt.Sprint(st.Log) }), ", ")
	case "ways": // the log by the first words of its entries, between which there is no order
		return strings.Join(s.each(w[1:], func(st *puppetState) string { return fmt.Sprint(byWay(slices.Clone(st.Log))) }), ", ")
	case "notes":
		return fmt.Sprintf("%s noted %v", w[1], s.stage().notes(w[1]))
	case "look":
		return result("look", s.look(w[1], func(_ *puppetState, r host.Reader) error { return exec(r, cmp.Or(arg(2), "SELECT 1")) }))
	case "query": // runs steps in a query
		return result("query", s.look(w[1], s.glance(w[2:])))
	case "check": // the database
		s.stage().check(w[1])
	case "pool":
		p := s.stage().sqlPool().Stats()
		return fmt.Sprintf("%d databases are open, %d in use", p.Open, p.InUse)
	case "export": // export ACTOR FILE
		var file bytes.Buffer
		err := s.stage().ExportSQL(s.t.Context(), addr(w[1]), &file)
		s.files[w[2]] = file.Bytes()
		return result("export", err)
	case "cut": // cut FILE BYTES
		s.files[w[1]] = s.files[w[1]][:s.number(w[2])]
	case "import": // import ACTOR FILE REASON
		st, err := s.stage().ImportSQL(s.t.Context(), addr(w[1]), bytes.NewReader(s.files[w[2]]), arg(3))
		return cmp.Or(result("import", err), fmt.Sprintf("%s has a database of %d migrations", w[1], st.Migrations))
	case "logged": // counts the lines of the log with these words
		n := 0
		for line := range strings.Lines(s.log.String()) {
			if !slices.ContainsFunc(w[1:], func(text string) bool { return !strings.Contains(line, text) }) {
				n++
			}
		}
		return fmt.Sprintf("%d lines of the log have %s", n, strings.Join(w[1:], " and "))
	case "commits":
		return fmt.Sprintf("%s has made %d commits since it woke", w[1], s.stage().Find(addr(w[1])).Applied.Load())
	case "held":
		return fmt.Sprintf("%d bytes of events are held", event.HubOf(s.stage().Kernel).Held.Load())
	case "list": // the actors of a type
		page, err := s.stage().List(s.t.Context(), host.ListQuery{Type: w[1]})
		return fmt.Sprintf("%d actors of type %s%s", len(page.Actors), w[1], result("", err))
	case "key": // key TEXT: the idempotency key of the calls that follow; none without TEXT
		s.key, s.last = arg(1), ""
	case "state":
		return s.state(w[1])
	case "why":
		return s.why(w[1])
	case "events": // that are kept
		return s.events(w[1], w[2:])
	case "now":
		now := time.Now().Round(time.Second)
		return "it is " + since(&now)
	case "once": // once KEY ACTOR STEPS: a call with an idempotency key
		input, ok := s.once[line]
		if !ok {
			input = remember(s.deed(w[3:]))
			s.once[line] = input
		}
		r := host.Request{Address: addr(w[2]), Method: "do", Codec: host.JSON, Input: input, IdempotencyKey: w[1]}
		reply, err := s.stage().Call(s.t.Context(), &r)
		if err == nil {
			return fmt.Sprintf("once %s: replayed %t", w[1], reply.Replayed)
		}
		return result("once "+w[1], err)
	case "version":
		return fmt.Sprintf("%s has version %d", w[1], s.stage().status(w[1]).Version)
	case "keys":
		return fmt.Sprintf("%s has %d keys", w[1], s.stage().status(w[1]).Keys)
	case "wakes":
		rows, err := s.stage().store.Wakes(nil, 1<<60, 1000)
		all := len(rows)
		rows = slices.DeleteFunc(rows, func(r engine.Wake) bool { return r.Due > 0 })
		return fmt.Sprintf("%d wake rows, %d at 0%s", all, len(rows), result("", err))
	case "life": // remembers the life of an actor; "rows" counts what is left of it in the store
		if err := s.life.UnmarshalText([]byte(s.stage().status(w[1]).ID)); err != nil {
			s.fatal("%v", err)
		}
	case "rows":
		return s.rows()
	case "parked":
		parked := 0
		for _, n := range s.stage().Pauses.Parked() {
			parked += n
		}
		return fmt.Sprintf("%d wait for the end of a pause", parked)
	case "memory":
		return fmt.Sprintf("%d awake, %d remains, %d signals, %d failures", s.stage().Memory.Awake.Load(),
			s.g.Remains.Len(), s.g.Signals.Len(),
			s.g.Failures.Len()+len(kernel.PartOf[*schedule.Part](s.g.Kernel).FailedRuns))
	case "disk": // full, free, held or broken
		s.disk(w[1])
	case "connect", "resume", "takeover": // connect CLIENT ACTOR EVENTS..., resume CLIENT ACTOR AFTER
		return s.connect(w)
	case "heard":
		texts, _, missed, err := heard(s.clients[w[1]])
		texts = shorten(texts, 100)
		out := fmt.Sprintf("%s heard %v", w[1], texts)
		if missed > 0 {
			out += fmt.Sprintf(", missed %d", missed)
		}
		if err != nil {
			out += ", " + describe(err)
		}
		return out
	case "lose", "leave":
		return result(w[0], s.clients[w[1]].Close(s.t.Context(), w[0] == "lose"))
	case "subscribe":
		return result(w[0], s.clients[w[1]].Subscribe(s.t.Context(), w[2:]...))
	case "unsubscribe":
		return result(w[0], s.clients[w[1]].Unsubscribe(s.t.Context(), w[2:]...))
	case "end": // by the token
		return result(w[0], s.stage().Disconnect(s.t.Context(), addr(w[2]), s.clients[w[1]].Welcome().Token))
	case "close": // close CLIENT ACTOR REASON: by an operator
		return s.command(fmt.Sprintf("verb %s connection.close {\"connection\":%q,\"reason\":%q}", w[2],
			s.clients[w[1]].Welcome().Connection, arg(3)))
	case "clients":
		return s.records(w[1])
	default:
		s.fatal("no command %q", line)
	}
	return ""
}

// each reads the state of actors.
func (s *scene) each(keys []string, f func(st *puppetState) string) (all []string) {
	for _, key := range keys {
		text := ""
		err := s.look(key, func(st *puppetState, _ host.Reader) error { text = f(st); return nil })
		all = append(all, cmp.Or(result(key, err), key+" = "+text))
	}
	return all
}

func (s *scene) state(key string) string {
	st, err := s.stage().Lookup(s.t.Context(), addr(key))
	if err != nil {
		return result(key, err)
	}
	out := fmt.Sprintf("%s is %s", key, st.State)
	for _, c := range []struct {
		name string
		n    int
	}{{"connections", st.Connections}, {"pending", st.PendingSends}, {"failed", st.FailedSends}, {"tasks",
		st.Tasks}, {"in the mailbox", st.Mailbox}} {
		if c.n > 0 {
			out += fmt.Sprintf(", %d %s", c.n, c.name)
		}
	}
	if st.Alarms > 0 {
		out += fmt.Sprintf(", %d alarms, next at %s", st.Alarms, since(st.NextAlarm))
	}
	if st.Pause != nil {
		out += fmt.Sprintf(", paused at %s: %q", since(&st.Pause.Since), st.Pause.Reason)
	}
	if st.Failure != nil {
		out += fmt.Sprintf(", failed: %.100s", st.Failure.Reason)
	}
	if st.Limits != nil {
		b, _ := json.Marshal(st.Limits)
		out += ", limits " + string(b)
	}
	return out
}

func (s *scene) why(key string) string {
	out, err := s.call(addr(key), host.ActorWhy, "")
	var x host.Explanation
	if err = cmp.Or(err, json.Unmarshal([]byte(out), &x)); err != nil {
		return result("why", err)
	}
	text := fmt.Sprintf("why %s: %s (%s to %s", x.Why, x.Text, since(x.Since), since(x.Until))
	if x.Remedy != "" {
		text += "; " + x.Remedy
	}
	text += ")"
	for _, name := range slices.Sorted(maps.Keys(x.Details)) {
		text += " " + name + "=" + x.Details[name]
	}
	return text
}

func (s *scene) events(key string, names []string) string {
	stream, err := s.stage().Subscribe(s.t.Context(), addr(key), host.Subscription{Names: names, Resume: true})
	if err != nil {
		return result("events", err)
	}
	defer stream.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	all := []string{}
	for {
		d, err := stream.Next(ctx)
		if err != nil {
			return fmt.Sprintf("%s has emitted %v", key, all)
		}
		for _, e := range d.Events {
			all = append(all, fmt.Sprintf("%d:%s", e.Sequence, e.Data))
		}
	}
}

// rows counts the rows of the life that "life" remembered.
func (s *scene) rows() string {
	snap := s.stage().store.Snapshot(s.life)
	defer snap.Close()
	page, err := snap.List(engine.ListQuery{})
	head, herr := snap.Head()
	_, _, named, ierr := s.g.store.Identity(s.life)
	if err = errors.Join(err, herr, ierr); err != nil {
		s.fatal("%v", err)
	}
	return fmt.Sprintf("%d rows of that life, a head: %t, an identity: %t", len(page.Entries), head != engine.Head{}, named)
}

func (s *scene) disk(how string) {
	s.stage().disk.Fail(nil)
	switch how {
	case "full":
		s.g.disk.SetFree(1)
	case "free":
		s.g.disk.SetFree(1 << 40)
	default:
		s.g.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				if how == "broken" {
					return errors.New("the disk is broken")
				}
				<-s.gate("disk")
			}
			return nil
		})
	}
}

func (s *scene) connect(w []string) string {
	from := w[1]
	r, to := host.ConnectRequest{Events: w[min(3, len(w)):]}, w[2]
	if w[0] != "connect" {
		r.Events = []string{"said"}
		switch {
		case w[0] == "takeover": // takeover NEW OLD ACTOR
			from, to, r.HasAfter = w[2], w[3], true
		case len(w) > 3:
			r.After, r.HasAfter = uint64(s.number(w[3])), true
		}
		r.Token = s.clients[from].Welcome().Token
	}
	l, err := s.stage().Connect(s.t.Context(), addr(to), r)
	if err != nil {
		return result(w[0], err)
	}
	out := ""
	if w[0] != "connect" {
		same := s.clients[from].Welcome().Connection == l.Welcome().Connection
		out = fmt.Sprintf("%s resumed: %t, the same connection: %t, cursor %d", w[1], l.Welcome().Resumed, same, l.Welcome().Cursor)
	}
	s.clients[w[1]] = l
	return out
}

func (s *scene) records(key string) string {
	var list []string
	err := s.look(key, func(_ *puppetState, r host.Reader) error {
		all, err := r.Connections("", 0)
		for _, c := range all {
			text := fmt.Sprint(c.Events)
			if len(c.State) > 0 {
				text += " marked " + string(c.State)
			}
			if !c.Lost.IsZero() {
				text += " lost at " + since(&c.Lost)
			}
			list = append(list, text)
		}
		return err
	})
	slices.Sort(list)
	return fmt.Sprintf("clients %v, %d live%s", list, event.HubOf(s.g.Kernel).Total(), result("", err))
}

// shorten shows equal texts of more bytes than long, one after the other, once.
func shorten(texts []string, long int) (all []string) {
	for i := 0; i < len(texts); {
		n := 1
		for len(texts[i]) > long && i+n < len(texts) && texts[i+n] == texts[i] {
			n++
		}
		text := texts[i]
		if n > 1 {
			text = fmt.Sprintf("%d times %s", n, text)
		}
		all, i = append(all, text), i+n
	}
	return all
}
