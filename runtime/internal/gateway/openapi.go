package gateway

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/openapi"
)

// openapi answers GET /openapi.json.
func (x *exchange) openapi() {
	fault := x.authorize(x.r.Context(), OpenAPI, host.Address{}, "")
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	d := &x.g.document
	d.once.Do(func() { d.text, d.err = document(&x.g.opts) })
	doc, err := d.text, d.err
	if err != nil {
		x.fail(x.g.internal("OpenAPI document", slog.Any("error", err)))
		return
	}
	h := x.w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(doc)))
	x.began = true
	x.w.WriteHeader(http.StatusOK)
	x.w.Write(doc)
}

// document describes what a gateway with the options serves.
func document(o *Options) ([]byte, error) {
	return openapi.Document(openapi.Node{
		Behaviors: o.Behaviors, Token: o.Token != "", Databases: o.Databases != nil, Runs: o.Runs != nil,
		MaxPage: maxPage, MaxIdempotencyKey: MaxIdempotencyKey, MaxReason: maxReason, DatabaseType: sqliteType,
	})
}
