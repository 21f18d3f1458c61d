package gateway

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// ListUsage is the AuthRequest.Method of requests for the usage of all actors of Type whose key
// begins with Key. So a hook that compares whole keys never opens the actors below a key.
const ListUsage = "usage.list"

// usage answers GET /-/usage.
func (x *exchange) usage() {
	ctx, cancel := x.limited()
	defer cancel()
	asked := parameters(x.R.URL.Query()) // the readable part of a malformed query
	q := usage.Query{Prefix: asked["prefix"]}
	q.Type, _ = asked.one("type")
	x.Count(q.Type, serve.LabelList)
	fault := x.Authorize(ctx, serve.Operate, host.Address{Type: q.Type, Key: q.Prefix}, ListUsage)
	var p parameters
	if fault == nil {
		p, fault = x.params("day", "type", "prefix", "limit", "cursor", "format")
	}
	q.Day, _ = p.one("day")
	q.Cursor, _ = p.one("cursor")
	format, _ := p.one("format")
	if fault == nil && format != "" && format != "json" && format != "csv" {
		fault = wrong("format", "the parameter format is %.40q; it is json or csv", format)
	}
	if fault == nil {
		q.Limit, fault = p.number("limit", 1, usage.MaxPage)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	page, err := x.g.meter.Usage(ctx, q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	if page.Cursor != "" {
		x.W.Header().Set("Cairn-Cursor", page.Cursor)
	}
	if format != "csv" {
		x.JSON(http.StatusOK, page)
		return
	}
	var b bytes.Buffer
	if err := usage.WriteCSV(&b, &page, true, written); err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	h := x.W.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="usage-`+page.Day+`.csv"`)
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	x.Begin(http.StatusOK)
	x.W.Write(b.Bytes())
}

// top answers GET /-/top.
func (x *exchange) top() {
	x.Count("", serve.LabelList)
	ctx, cancel := x.limited()
	defer cancel()
	fault := x.Authorize(ctx, serve.List, host.Address{}, "")
	var p parameters
	if fault == nil {
		p, fault = x.params("by", "limit")
	}
	q := usage.TopQuery{By: usage.ByTime}
	if by, ok := p.one("by"); ok {
		q.By = usage.Measure(by)
	}
	if fault == nil {
		q.Limit, fault = p.number("limit", 1, usage.MaxPage)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	top, err := x.g.meter.Top(q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.JSON(http.StatusOK, top)
}

// written returns an actor in the form of paths: the type, and the parts of the key.
func written(typ string, key []string) string {
	b := []byte(typ)
	for _, part := range key {
		b = append(b, '/')
		if part == "" || part == "-" || part == "." || part == ".." || strings.HasPrefix(part, "~") {
			b = append(b, '~')
		}
		b = append(b, url.PathEscape(part)...)
	}
	return string(b)
}
