package run

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// The node lists the runs that are paused or have failed in its wake index, under times that never
// come: a row each, with the type of the actor as its name and the reason as its instance. The
// commit that pauses or ends the run writes or removes the row, so the cost of a list does not
// depend on healthy actors.

// listedFailed is the reason of the rows of runs that have failed. No pause has it.
const listedFailed = "failed"

// maxRowsRead is how many rows of the list one page looks at. It bounds the time of a query that
// selects few.
const maxRowsRead = 10_000

// maxListedText is how many bytes of a report or failure a list shows.
const maxListedText = 1024

// listedDue returns the time under which runs with a reason are listed.
func listedDue(reason string) int64 {
	if reason == listedFailed {
		return keyspace.FailedRunsDue
	}
	return keyspace.PausedRunsDue
}

// listRun puts the actor's run into the node's list with a reason, or removes it with "". It is
// logged and counted when that is durable.
func listRun(c *kernel.Core, h *kernel.Turn, reason string) error {
	f := flowOf(c)
	was := f.listed
	if was == reason {
		return nil
	}
	typ := c.Actor.Type.Type
	if was != "" {
		c.Rows.ClearWake(listedDue(was), keyspace.WakeListed, typ, was)
	}
	f.listed, f.asOf = reason, c.Rows.Version()
	gauge := kernel.PartOf[*Part](c.Actor.Kernel).paused
	if was != "" && was != listedFailed {
		h.Then(gauge.WithLabelValues(typ, was).Dec)
	}
	if reason == "" {
		return nil
	}
	c.Rows.SetWake(listedDue(reason), keyspace.WakeListed, typ, reason)
	if reason == listedFailed {
		return nil
	}
	st, err := wfhost.ReadOutcome(&RunRows{H: h, sealed: h.Returned()})
	if err != nil {
		return tolerate(c, err)
	}
	logger := c.Actor.Kernel.Logger
	attributes := []any{"actor_type", typ, "actor_key", c.Actor.Address.Key, "workflow",
		st.Workflow, "run", st.ID, "reason", reason}
	if p := st.Pause; p != nil {
		attributes = append(attributes, "text", cutText(p.Text))
		if !p.Next.IsZero() {
			attributes = append(attributes, "next", p.Next)
		}
	}
	h.Then(func() {
		gauge.WithLabelValues(typ, reason).Inc()
		logger.Warn("a workflow run is paused", attributes...)
	})
	return nil
}

// cutText cuts a text to maxListedText.
func cutText(s string) string {
	if len(s) > maxListedText {
		s = strings.ToValidUTF8(s[:maxListedText], "") + "…"
	}
	return s
}

// hurryRun makes the run try again at once although it is paused until later.
func hurryRun(c *kernel.Core) {
	f := flowOf(c)
	if f.run != nil {
		f.run.TryNow()
		return
	}
	f.hurried = true
}

// listed calls visit with the rows of runs that are listed with times from first to last, after a
// row if that is not nil, until it returns false.
func listed(store *engine.Store, first, last int64, after []byte, visit func(engine.Wake) (bool, error)) error {
	if after == nil {
		after = keyspace.AppendWakeTime(nil, first)
	}
	for {
		rows, err := store.Wakes(after, last, 1024)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Kind != keyspace.WakeListed {
				continue
			}
			if more, err := visit(row); !more || err != nil {
				return err
			}
		}
		if len(rows) < 1024 {
			return nil
		}
		after = rows[len(rows)-1].Row
	}
}

// countPaused counts the runs that are paused. It runs before anything else does.
func (p *Part) countPaused(s *kernel.Kernel) {
	err := listed(s.Store, keyspace.PausedRunsDue, keyspace.PausedRunsDue, nil, func(row engine.Wake) (bool, error) {
		ident, _, ok, err := s.Store.Identity(row.ID)
		if ok && ident.Namespace == s.Options.Namespace {
			p.paused.WithLabelValues(row.Name, row.Instance).Inc()
		}
		return true, err
	})
	if err != nil {
		s.Logger.Error("read which workflow runs are paused", "error", err)
	}
}

// retryPausedRuns tries the runs that are paused for a fault of their code, a few at a time: the
// node may have been started with other code.
func retryPausedRuns(s *kernel.Kernel) {
	slots := make(chan struct{}, s.Options.AlarmConcurrency)
	err := listed(s.Store, keyspace.PausedRunsDue, keyspace.PausedRunsDue, nil, func(row engine.Wake) (bool, error) {
		switch wfhost.PauseReason(row.Instance) {
		case wfhost.PausedOperator, wfhost.PausedExhausted, wfhost.PausedCrashing:
			return true, nil // each waits for an operator, or for its time
		}
		if s.Types[row.Name] == nil {
			return true, nil
		}
		select {
		case slots <- struct{}{}:
		case <-s.Life.Done():
			return false, nil
		}
		duty.RecoverActor(s, row, func() { <-slots }, func(a *kernel.Actor) *kernel.Work {
			w := RunOf(a).Item(false)
			w.Job = runHurried
			return w
		}, false)
		return true, nil
	})
	if err != nil {
		s.Logger.Error("try paused workflow runs again", "error", err)
	}
}

// Runs implements host.RunLister. It returns when what it read is durable, as [survey.List]
// does.
func Runs(s *kernel.Kernel, ctx context.Context, q host.RunQuery) (host.RunPage, error) {
	page, err := StoredRuns(s.Store, s.Options.Namespace, q)
	if err != nil {
		return host.RunPage{}, s.StoreError(err)
	}
	if page.Uncertain, err = runsSeen(s, ctx, q.Type); err != nil {
		return host.RunPage{}, err
	}
	if len(page.Uncertain) > 0 {
		page.Runs = slices.DeleteFunc(page.Runs, func(r host.ListedRun) bool {
			return survey.Contains(page.Uncertain, host.Address{Type: r.Type, Key: r.Key})
		})
	}
	return page, nil
}

// runsSeen is allSeen for the runs of a type, or with "" of all.
func runsSeen(s *kernel.Kernel, ctx context.Context, typ string) ([]host.Address, error) {
	return survey.AllSeen(s, ctx,
		func(t *kernel.Type) bool { return (t.Retired || len(t.Workflows) > 0) && (typ == "" || t.Type == typ) })
}

// StoredRuns pages through the runs of a store that are paused or have failed.
func StoredRuns(store *engine.Store, namespace string, q host.RunQuery) (host.RunPage, error) {
	page := host.RunPage{Runs: []host.ListedRun{}}
	if q.Limit < 0 || q.Limit > 1000 {
		return page, host.Errorf(host.InvalidArgument, "limit is %d; it is 1 to 1000", q.Limit)
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	first, last := keyspace.PausedRunsDue, keyspace.FailedRunsDue
	switch q.State {
	case "":
	case wfhost.StatePaused:
		last = first
	case wfhost.StateFailed:
		first = last
	default:
		return page, host.Errorf(host.InvalidArgument, "state is %q; it is %q or %q", q.State,
			wfhost.StatePaused, wfhost.StateFailed).With("field", "state")
	}
	if q.Reason != "" {
		if known := wfhost.PauseReasons(); !slices.Contains(known, q.Reason) {
			return page,
				host.Errorf(host.InvalidArgument, "reason is %q; known are %q", q.Reason, known).With("field", "reason")
		}
		if q.State == wfhost.StateFailed {
			return page,
				host.Errorf(host.InvalidArgument, "reason is %q; a failed run has none", q.Reason).
					With("field", "reason")
		}
		last = keyspace.PausedRunsDue
	}
	var after []byte
	if q.Cursor != "" {
		var err error
		if after, err = base64.RawURLEncoding.DecodeString(q.Cursor); err == nil {
			_, err = keyspace.ParseWakeRow(after)
		}
		if err != nil {
			return page, host.Errorf(host.InvalidArgument, "cursor is not from an earlier page").With("field", "cursor")
		}
	}
	if start := keyspace.AppendWakeTime(nil, first); slices.Compare(after, start) < 0 {
		after = start
	}
	read := 0
	err := listed(store, first, last, after, func(row engine.Wake) (bool, error) {
		if read++; read > maxRowsRead || len(page.Runs) == q.Limit {
			page.Cursor = base64.RawURLEncoding.EncodeToString(after)
			return false, nil
		}
		after = row.Row
		if q.Type != "" && row.Name != q.Type || q.Reason != "" && row.Instance != string(q.Reason) {
			return true, nil
		}
		run, ok, err := listedRun(store, namespace, row)
		if err == nil && ok && (q.Before.IsZero() || run.Since.Before(q.Before)) {
			page.Runs = append(page.Runs, run)
		}
		return true, err
	})
	return page, err
}

// listedRun describes a run that is listed; false if its actor is gone, or belongs to another
// namespace.
func listedRun(store *engine.Store, namespace string, row engine.Wake) (host.ListedRun, bool, error) {
	ident, _, ok, err := store.Identity(row.ID)
	if err != nil || !ok || ident.Namespace != namespace {
		return host.ListedRun{}, false, err
	}
	run := host.ListedRun{Type: ident.Type, Key: append([]string{}, ident.Key...), State: wfhost.StateFailed}
	if row.Instance != listedFailed {
		run.State, run.Reason = wfhost.StatePaused, wfhost.PauseReason(row.Instance)
	}
	snap := store.Snapshot(row.ID)
	defer snap.Close()
	st, err := wfhost.ReadOutcome(storedRun{snap})
	switch {
	case errors.Is(err, wfhost.ErrNoRun):
		return run, false, nil
	case err != nil:
		if _, ok := errors.AsType[*wfhost.CorruptError](err); !ok {
			return run, false, err
		}
		run.Text = cutText(err.Error())
		return run, true, nil
	}
	run.Run, run.Workflow, run.Since = st.ID, st.Workflow, st.Ended
	if p := st.Pause; p != nil && run.State == wfhost.StatePaused {
		run.Since, run.Next, run.Text = p.Since, p.Next, cutText(p.Text)
	} else if st.Failure != nil {
		run.Text = cutText(st.Failure.Message)
	}
	return run, true, nil
}

// CountRuns implements host.RunLister. It returns when what it read is durable, as
// [survey.List] does.
func CountRuns(s *kernel.Kernel, ctx context.Context) (host.RunCounts, error) {
	var n host.RunCounts
	for {
		var err error
		if n.Counts, err = StoredRunCounts(s.Store, s.Options.Namespace, n.Uncertain); err != nil {
			return host.RunCounts{}, s.StoreError(err)
		}
		lost, err := runsSeen(s, ctx, "")
		if err != nil {
			return host.RunCounts{}, err
		}
		if len(lost) == len(n.Uncertain) { // a commit that is lost stays so, and a store that has failed takes no other
			return n, nil
		}
		n.Uncertain = lost
	}
}

// StoredRunCounts counts the runs of a namespace of a store that are paused or have failed, without
// those of some actors.
func StoredRunCounts(store *engine.Store, namespace string, without []host.Address) ([]host.RunCount, error) {
	type group struct{ typ, reason string }
	found := map[group]int64{}
	err := listed(store, keyspace.PausedRunsDue, keyspace.FailedRunsDue, nil, func(row engine.Wake) (bool, error) {
		ident, _, ok, err := store.Identity(row.ID)
		if ok && ident.Namespace == namespace &&
			!survey.Contains(without, host.Address{Type: ident.Type, Key: ident.Key}) {
			found[group{row.Name, row.Instance}]++
		}
		return true, err
	})
	counts := []host.RunCount{}
	for g, n := range found {
		c := host.RunCount{Type: g.typ, State: wfhost.StateFailed, Count: n}
		if g.reason != listedFailed {
			c.State, c.Reason = wfhost.StatePaused, wfhost.PauseReason(g.reason)
		}
		counts = append(counts, c)
	}
	slices.SortFunc(counts, func(a, b host.RunCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.State, a.State), cmp.Compare(a.Reason, b.Reason))
	})
	return counts, err
}

// runSummary describes the run of an actor for its status; nil if it has none.
func runSummary(r wfhost.Reader) (*host.RunSummary, error) {
	st, err := wfhost.ReadOutcome(r)
	if errors.Is(err, wfhost.ErrNoRun) {
		return nil, nil
	}
	if _, ok := errors.AsType[*wfhost.CorruptError](err); ok {
		return nil, nil // workflow.status has the error
	}
	if err != nil {
		return nil, err
	}
	out := &host.RunSummary{Workflow: st.Workflow, State: st.State, Since: st.Started}
	if p := st.Pause; p != nil && !st.State.Over() {
		out.State, out.Reason, out.Since = wfhost.StatePaused, p.Reason, p.Since
	} else if st.State.Over() {
		out.Since = st.Ended
	}
	out.Since = out.Since.UTC().Truncate(time.Millisecond)
	return out, nil
}
