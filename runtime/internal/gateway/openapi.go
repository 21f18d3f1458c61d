package gateway

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/openapi"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// openapi answers GET /openapi.json.
func (x *exchange) openapi() {
	fault := x.Authorize(x.R.Context(), serve.OpenAPI, host.Address{}, "")
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	d := &x.g.document
	d.once.Do(func() { d.text, d.err = x.g.describe() })
	doc, err := d.text, d.err
	if err != nil {
		x.Fail(x.Front.Internal("OpenAPI document", slog.Any("error", err)))
		return
	}
	h := x.W.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(doc)))
	x.Begin(http.StatusOK)
	x.W.Write(doc)
}

// describe makes the OpenAPI document of the gateway.
func (g *Gateway) describe() ([]byte, error) {
	o := &g.opts
	return openapi.Document(openapi.Node{
		Behaviors: g.front.Behaviors, Token: g.front.Token != "", Databases: o.Databases != nil, Runs: o.Runs != nil, Traces: g.finder != nil, Sampling: g.sampler != nil, Usage: g.meter != nil,
		MaxPage: maxPage, MaxIdempotencyKey: MaxIdempotencyKey, MaxReason: maxReason, DatabaseType: sqliteType,
	})
}
