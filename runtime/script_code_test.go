package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/workflow"
)

// A statement of a workflow function has words and a block. Some words are options: a word or
// name=value.
type statement struct {
	words []string
	block []statement
}

var token = regexp.MustCompile(`"[^"]*"|[{};]|[^\s{};"]+`)

// parse reads statements from tokens, up to the closing brace or the end.
func parse(tokens []string) (list []statement, rest []string) {
	var l statement
	end := func() {
		if len(l.words) > 0 {
			list = append(list, l)
		}
		l = statement{}
	}
	for len(tokens) > 0 {
		word := tokens[0]
		tokens = tokens[1:]
		switch word {
		case ";":
			end()
		case "{":
			l.block, tokens = parse(tokens)
			end()
		case "}":
			end()
			return list, tokens
		default:
			l.words = append(l.words, strings.Trim(word, `"`))
		}
	}
	end()
	return list, nil
}

func (l *statement) is(word string) bool { return slices.Contains(l.words[1:], word) }

// option returns the value of an option, "" if it is absent.
func (l *statement) option(name string) string {
	for _, w := range l.words {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			return v
		}
	}
	return ""
}

// text returns the words from the second on that are no options, or as many bytes as the option
// size.
func (l *statement) text() string {
	if n, _ := strconv.Atoi(l.option("size")); n > 0 {
		return strings.Repeat("x", n)
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(l.words[1:]), func(w string) bool { return strings.Contains(w, "=") }), " ")
}

func (l *statement) duration(word int) time.Duration {
	d, _ := time.ParseDuration(l.words[word])
	return d
}

func (l *statement) stepOptions() (options []workflow.StepOption) {
	switch {
	case l.is("hangs"):
		options = append(options, workflow.Timeout(0))
	case l.is("errs"), l.is("busy"):
		options = append(options, workflow.Retry(workflow.RetryPolicy{Initial: time.Hour}))
	}
	if d, _ := time.ParseDuration(l.option("total")); d > 0 {
		options = append(options, workflow.TotalTimeout(d))
	}
	if by := l.option("undo-by"); by != "" {
		options = append(options, workflow.UndoBy(by, l.words[1]))
	}
	return options
}

// An execution of a workflow function.
type execution struct {
	*scene
	in       claim
	children map[string]*workflow.Child[string]
	request  workflow.Received[string]
}

// code makes a way that executes statements.
func (s *scene) code(body []statement) way {
	return func(ctx workflow.Context, c claim) (string, error) {
		_, end := s.count("function")
		defer end()
		return (&execution{scene: s, in: c, children: map[string]*workflow.Child[string]{}}).run(ctx, body)
	}
}

// run executes statements, and returns their values.
func (x *execution) run(ctx workflow.Context, body []statement) (string, error) {
	var values []string
	for i := range body {
		v, err := x.do(ctx, &body[i])
		if err != nil {
			return "", err
		}
		if v != "" {
			values = append(values, v)
		}
	}
	return strings.Join(values, " "), nil
}

// book notes something in the desk "book", once for each step.
func (x *execution) book(sc *workflow.StepCtx, what string) error {
	_, err := x.bureau.order.CallFrom(sc, []string{"book"}, order{What: "note", How: what})
	return err
}

// body is the body of a step.
func (x *execution) body(l *statement) func(sc *workflow.StepCtx) (string, error) {
	return func(sc *workflow.StepCtx) (string, error) {
		_, end := x.count(l.words[1])
		defer end()
		if l.is("books") {
			if err := x.book(sc, l.words[1]); err != nil {
				return "", err
			}
		}
		switch d, _ := time.ParseDuration(l.option("deaf")); {
		case d > 0 && sc.Attempt() == 1: // does not look at its context
			time.Sleep(d)
		case l.is("hangs") && !x.is("go-on"):
			<-sc.Done()
			return "", sc.Err()
		case l.option("takes") != "":
			takes, _ := time.ParseDuration(l.option("takes"))
			select {
			case <-time.After(takes):
			case <-sc.Done():
				return "", sc.Err()
			}
		case l.is("errs"):
			return "", errors.New("dial tcp 10.0.0.7:5432")
		case l.is("fails"):
			return "", workflow.Permanent(errors.New(l.text()))
		case l.is("refused"): // with a code and metadata; not tried again
			return "", actor.Errorf(actor.QuotaExceeded, "too much").With("limit", "3")
		case l.is("busy"): // an error with a code beside one without
			return "", errors.Join(errors.New("dial tcp 10.0.0.7:5432"), actor.Errorf(actor.Unavailable, "no such claim"))
		case l.is("notes"):
			actor.OnCommit(sc, func(d *desk, _ *actor.Context) error { d.Notes = append(d.Notes, l.words[1]); return nil })
		case l.is("reaches"): // another actor, and its own
			task := actor.StepTask(sc)
			if _, err := x.bureau.order.Call(sc, x.bureau.typ.Ref(task, "other"), order{What: "open"}); err != nil {
				return "", err
			}
			return task.Type(),
				actor.Enter(task, func(d *desk, _ *actor.Context) error { d.Notes = append(d.Notes, "entered"); return nil })
		}
		if l.option("size") != "" {
			return l.text(), nil
		}
		return l.option("value"), nil
	}
}

// do executes a statement.
func (x *execution) do(ctx workflow.Context, l *statement) (string, error) {
	b, name := x.bureau, ""
	if len(l.words) > 1 {
		name = l.words[1]
	}
	switch l.words[0] {
	case "try": // the error is the value
		v, err := x.do(ctx, &statement{l.words[1:], l.block})
		if err != nil {
			return "(" + err.Error() + ")", nil
		}
		return v, nil
	case "ignore": // the value
		_, err := x.do(ctx, &statement{l.words[1:], l.block})
		return "", err
	case "detach":
		return x.run(workflow.Detach(ctx), l.block)
	case "if": // the number of the claim
		if name == strconv.Itoa(x.in.N) {
			return x.run(ctx, l.block)
		}
		return "", nil
	case "say":
		return l.text(), nil
	case "fail":
		return "", errors.New(l.text())
	case "refuse": // refuse CODE TEXT
		return "", fmt.Errorf("10.0.0.7: %w", actor.Errorf(actor.Code(name), "%s", strings.Join(l.words[2:], " ")))
	case "block": // outside of a step, until the gate is open
		<-x.gate(name)
		return "late", nil
	case "panic":
		panic(l.text())
	case "publish":
		workflow.Publish(ctx, l.text())
		return "", nil
	case "step":
		return workflow.Step(ctx, name, x.body(l), l.stepOptions()...)
	case "mark": // a step that is undone
		return workflow.Compensated(ctx, name, x.body(l), func(sc *workflow.StepCtx, _ string) error {
			if l.is("books") {
				_, _ = sc.Undoes() // the step has booked even if it has no result
				return x.book(sc, "undone "+name)
			}
			actor.OnCommit(sc, func(d *desk, _ *actor.Context) error { d.Notes = append(d.Notes, "undone "+name); return nil })
			return nil
		}, l.stepOptions()...)
	case "race": // race NAME DURATION { statements }: against a timer
		_, v, err := workflow.Race(ctx, name,
			workflow.C("work", func(ctx workflow.Context) (string, error) { return x.run(ctx, l.block) }),
			workflow.C("timer", func(ctx workflow.Context) (string, error) { return "late", workflow.Sleep(ctx, "pause", l.duration(2)) }))
		return v, err
	case "saga":
		return workflow.Saga(ctx, name, func(ctx workflow.Context) (string, error) { return x.run(ctx, l.block) })
	case "pay":
		n, _ := strconv.Atoi(l.words[2])
		return "", b.pay(ctx, name, n)
	case "update": // stores a number of bytes in the state
		return actor.UpdateState(ctx, name, func(d *desk, _ *actor.Context) (string, error) {
			d.Notes = append(d.Notes, l.text())
			return "", nil
		})
	case "store": // stores a number of bytes beside the state
		return actor.UpdateState(ctx, name, func(d *desk, ctx *actor.Context) (string, error) {
			d.Paid++
			return "", ctx.KV().Put(tuple.Tuple{name}, []byte(l.text()))
		})
	case "sleep":
		return "", workflow.Sleep(ctx, name, l.duration(2))
	case "receive":
		var options []workflow.WaitOption
		if d, _ := time.ParseDuration(l.option("within")); d > 0 {
			options = append(options, workflow.Within(d))
		}
		m, err := workflow.Receive(ctx, name, b.papers, options...)
		return m.Body, err
	case "request":
		m, err := workflow.Receive(ctx, name, b.consent)
		x.request = m
		return m.Body, err
	case "reply": // reply NAME [error]
		return actor.UpdateState(ctx, name, func(_ *desk, ctx *actor.Context) (string, error) {
			return "", b.consent.Reply(ctx, x.request, x.request.Body == "please")
		})
	case "reject":
		return workflow.Update(ctx, name, func(tx *workflow.Tx) (string, error) {
			return "", workflow.ReplyError(tx, x.request, fmt.Errorf("rows: %w", host.OverLimit("rows", 10, 11)))
		})
	case "await": // until the desk is open
		return actor.AwaitState(ctx, name, func(d desk) (string, bool) { return fmt.Sprint("paid ", d.Paid), d.Open })
	case "spawn": // spawn NAME KEY WAY; on=TYPE for a type that the node may not have
		if on := l.option("on"); on != "" {
			c, err := workflow.Spawn(ctx, name, workflow.NewFunction("handle", runClaim), claim{},
				workflow.OnActor(workflow.Destination{Type: on, Key: []string{"b"}}))
			x.children[name] = c
			return "", err
		}
		c, err := actor.SpawnRun(ctx, name, b.run, []string{l.words[2]}, claim{l.words[3], x.in.N})
		x.children[name] = c
		return "", err
	case "result":
		return x.children[name].Result(ctx)
	case "rounds": // a loop of three rounds, each with a step and a paper, whose history is kept
		return workflow.Loop(ctx, name, "", func(it *workflow.Iter[string, string]) error {
			n, err := workflow.Step(it, "s", func(*workflow.StepCtx) (int, error) {
				n, end := x.count("s")
				end()
				return n, nil
			})
			if err != nil {
				return err
			}
			m, err := workflow.Receive(it, "paper", b.papers)
			it.State += fmt.Sprint(n, m.Body, " ")
			if it.Iteration() < 2 || err != nil {
				return err
			}
			return it.Break(it.State)
		}, workflow.Keep(5))
	}
	x.t.Errorf("%s: no statement %q", x.at, l.words)
	return "", context.Canceled
}
