package node

import (
	"context"
	"errors"

	goruntime "runtime"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
)

// endless is one call of a function that takes an hour: it multiplies two numbers of a million digits.
const endless = "SELECT decimal_mul(printf('%.*c', 1000000, '7'), printf('%.*c', 1000000, '3'))"

func needStoppedCalls(t *testing.T) {
	if goruntime.GOOS != "linux" && goruntime.GOOS != "darwin" {
		t.Skip("calls of SQLite cannot be stopped on this system")
	}
}

func TestOneCallOfAFunctionEndsWithTheTurn(t *testing.T) {
	t.Parallel()
	needStoppedCalls(t)
	g := newStage(t, nil, &puppetType{name: "p", decimal: true, limits: host.Limits{TurnTimeout: time.Second, QueryTimeout: time.Second}})
	g.patiently("a", note("one"))
	wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error {
		if err := exec(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
			return err
		}
		return exec(h, endless)
	}), host.DeadlineExceeded)
	wantCode(t, g.look("a", func(_ *puppetState, r host.Reader) error { _, err := r.SQL().Exec(endless); return err }), host.DeadlineExceeded)
	g.patiently("a", note("two"))
	g.wantNotes("a", "one", "two")
}

func TestAQueryHasATimeLimitOfItsOwn(t *testing.T) {
	t.Parallel()
	const runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{QueryTimeout: 50 * time.Millisecond}})
	g.must("a", note("one"))
	for name, look := range map[string]glance{
		"a statement":                 func(_ *puppetState, r host.Reader) error { _, err := r.SQL().Exec(runaway); return err },
		"a statement of its context":  func(_ *puppetState, r host.Reader) error { _, err := r.SQL().ExecContext(r, runaway); return err },
		"what waits for its context":  func(_ *puppetState, r host.Reader) error { <-r.Done(); return r.Err() },
		"what has its deadline alone": func(_ *puppetState, r host.Reader) error { return untilDeadline(r) },
	} {
		_, err := g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: remember(look)})
		if host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// untilDeadline waits for the deadline of a context without Done.
func untilDeadline(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		return errors.New("there is no deadline")
	}
	for ctx.Err() == nil {
		goruntime.Gosched()
	}
	return ctx.Err()
}

func TestAQueryOfACallerWithLessTimeEndsWithIt(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p"}}, func(t *testing.T, g *stage) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
			Input: remember(glance(func(_ *puppetState, r host.Reader) error { <-r.Done(); return r.Err() }))})
		wantCode(t, err, host.DeadlineExceeded)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %s", took)
		}
		begun = time.Now()
		_, err = g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
			Input: remember(glance(func(_ *puppetState, r host.Reader) error { <-r.Done(); return r.Err() }))})
		wantCode(t, err, host.DeadlineExceeded)
		if took := time.Since(begun); took != limit.DefaultQueryTimeout {
			t.Errorf("it took %s, want the default", took)
		}
	})
}
