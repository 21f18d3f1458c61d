package gateway

import (
	"net/http"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// options answers OPTIONS: a CORS preflight, or the question which methods a path has.
func (x *exchange) options(allow string) {
	h := x.w.Header()
	if serve.Preflight(x.r) && h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Allow-Headers",
			"Authorization, Cairn-Connection, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Traceparent")
		h.Set("Access-Control-Max-Age", "600")
		if x.r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	h.Set("Allow", allow)
	x.began = true
	x.w.WriteHeader(http.StatusNoContent)
}
