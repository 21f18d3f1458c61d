package gateway

import (
	"net/http"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// ListRuns is the AuthRequest.Method of requests for the workflow runs that are paused or have
// failed.
const ListRuns = "workflow.list"

// runs answers GET /workflows.
func (x *exchange) runs() {
	ctx, cancel := x.limited()
	defer cancel()
	typ := x.R.URL.Query().Get("type")
	x.Count(typ, serve.LabelList)
	if fault := x.Authorize(ctx, serve.Operate, host.Address{Type: typ}, ListRuns); fault != nil {
		x.Fail(fault)
		return
	}
	p, fault := x.params("type", "state", "reason", "before", "limit", "cursor")
	if fault != nil {
		x.Fail(fault)
		return
	}
	q := host.RunQuery{Type: typ}
	q.Cursor, _ = p.one("cursor")
	state, _ := p.one("state")
	reason, _ := p.one("reason")
	q.State, q.Reason = wfhost.State(state), wfhost.PauseReason(reason)
	q.Limit, fault = p.number("limit", 1, maxPage)
	if s, ok := p.one("before"); ok && fault == nil {
		var err error
		if q.Before, err = time.Parse(time.RFC3339, s); err != nil {
			fault = wrong("before", "the parameter before is %q; it must be a time such as 2026-11-21T13:40:00Z", s)
		}
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	page, err := x.g.opts.Runs.Runs(ctx, q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.JSON(http.StatusOK, page)
}

// runCounts answers GET /workflows/counts.
func (x *exchange) runCounts() {
	x.Count("", serve.LabelList)
	ctx, cancel := x.limited()
	defer cancel()
	fault := x.Authorize(ctx, serve.Operate, host.Address{}, ListRuns)
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	counts, err := x.g.opts.Runs.CountRuns(ctx)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.JSON(http.StatusOK, counts)
}
