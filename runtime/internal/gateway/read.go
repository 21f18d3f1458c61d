package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// maxPage is the largest page of a request.
const maxPage = 1000

// parameters are the query parameters of a request.
type parameters url.Values

// lists are the parameters that may be given several times.
var lists = []string{"prefix", "events", "names", "key", "where"}

// params reads the query parameters. It refuses unknown names, because a typing error in an
// optional parameter would go unnoticed. It refuses a parameter that is given twice, except lists.
func (x *exchange) params(known ...string) (parameters, *host.Error) {
	if x.R.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(x.R.URL.RawQuery)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "the query of the URL is malformed")
	}
names:
	for name, given := range values {
		for _, value := range given {
			if !utf8.ValidString(value) {
				return nil, wrong(name, "the parameter %s is not valid UTF-8", strings.ToValidUTF8(name, "\uFFFD"))
			}
		}
		for _, k := range known {
			switch {
			case name != k:
			case len(given) > 1 && !slices.Contains(lists, name):
				return nil, wrong(name, "the parameter %s is given %d times; it takes one value", name, len(given))
			default:
				continue names
			}
		}
		return nil, wrong(name, "the parameter %q is not known here; known are: %s",
			name, cmp.Or(strings.Join(known, ", "), "none"))
	}
	return parameters(values), nil
}

// wrong returns the error for a wrong parameter of a URL, header, or member of a body.
func wrong(name, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...).With("field", strings.ToValidUTF8(name, "\uFFFD"))
}

// about adds the faulty parameter, header or member to an error of the node. The node cannot know
// its name; it put the value under key into the metadata.
func about(e *host.Error, key, name string) *host.Error {
	if e.Code == host.InvalidArgument && e.Metadata[key] != "" && e.Metadata["field"] == "" {
		return e.With("field", name)
	}
	return e
}

// one returns the value of a parameter and whether there is one.
func (p parameters) one(name string) (string, bool) {
	v := p[name]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// number reads an integer parameter between lo and hi: 0 if it is absent.
func (p parameters) number(name string, lo, hi int) (int, *host.Error) {
	s, ok := p.one(name)
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < lo || n > hi {
		return 0, wrong(name, "the parameter %s is %q; it must be a number from %d to %d", name, s, lo, hi)
	}
	return n, nil
}

// flag reads true or false: false if it is absent.
func (p parameters) flag(name string) (bool, *host.Error) {
	switch s, ok := p.one(name); {
	case !ok, s == "false":
		return false, nil
	case s == "true":
		return true, nil
	default:
		return false, wrong(name, "the parameter %s is %q; it must be true or false", name, s)
	}
}

// names reads a list of names, separated by commas or as several parameters: nil if it is absent.
func (p parameters) names(name string) ([]string, *host.Error) {
	var names []string
	for _, list := range p[name] {
		for one := range strings.SplitSeq(list, ",") {
			if one == "" {
				return nil, wrong(name, "the parameter %s has an empty name", name)
			}
			names = append(names, one)
		}
	}
	return names, nil
}

// status answers GET .../-/.
func (x *exchange) status(t *target) {
	x.Count(t.Type, serve.LabelRead)
	ctx, cancel := x.limited()
	defer cancel()
	fault := x.Authorize(ctx, serve.Read, t.Address, "")
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	st, err := x.g.node.Lookup(ctx, t.Address)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.W.Header().Set("Cairn-Version", strconv.FormatUint(st.Version, 10))
	x.JSON(http.StatusOK, x.shown(ctx, st))
}

// destroy answers DELETE .../-/.
func (x *exchange) destroy(t *target) {
	x.Count(t.Type, serve.LabelDestroy)
	ctx, cancel := x.limited()
	defer cancel()
	if fault := x.Authorize(ctx, serve.Destroy, t.Address, ""); fault != nil {
		x.Fail(fault)
		return
	}
	if err := x.g.node.Destroy(ctx, t.Address); err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.Begin(http.StatusNoContent)
}

// shown returns a status as the caller may read it. The error of a failed actor is for operators,
// as in dead letters.
func (x *exchange) shown(ctx context.Context, st host.Status) host.Status {
	if st.Key == nil {
		st.Key = []string{} // not null in JSON
	}
	f := st.Failure
	if f == nil || f.Reason == f.Public ||
		!x.Front.Veiled(ctx,
			serve.AuthRequest{Type: st.Type, Key: st.Key, Header: x.R.Header,
				RemoteAddr: x.R.RemoteAddr}, host.ActorWhy) {
		return st
	}
	public := *f
	public.Reason = f.Public
	st.Failure = &public
	return st
}

// list answers GET /actors.
func (x *exchange) list() {
	x.Count("", serve.LabelList)
	ctx, cancel := x.limited()
	defer cancel()
	asked := parameters(x.R.URL.Query()) // the readable part of a malformed query
	q := host.ListQuery{Prefix: asked["prefix"]}
	q.Type, _ = asked.one("type")
	x.Count(q.Type, serve.LabelList)
	fault := x.Authorize(ctx, serve.List, host.Address{Type: q.Type, Key: q.Prefix}, "")
	var p parameters
	if fault == nil {
		p, fault = x.params("type", "prefix", "where", "sort", "limit", "cursor", "brief")
	}
	q.Where = p["where"]
	q.Sort, _ = p.one("sort")
	q.Cursor, _ = p.one("cursor")
	if fault == nil {
		q.Limit, fault = p.number("limit", 1, maxPage)
	}
	if fault == nil {
		q.Brief, fault = p.flag("brief")
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	page, err := x.g.node.List(ctx, q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	actors := make([]host.Status, len(page.Actors))
	for i, st := range page.Actors {
		actors[i] = x.shown(ctx, st)
	}
	page.Actors = actors
	x.JSON(http.StatusOK, page)
}

// A keysPage is host.InspectPage with a Next that needs no escapes in a URL.
type keysPage struct {
	Keys []host.StoredKey `json:"keys"`
	Next string           `json:"next,omitempty"`
}

// keys answers GET .../-/keys.
func (x *exchange) keys(t *target) {
	x.Count(t.Type, serve.LabelInspect)
	ctx, cancel := x.limited()
	defer cancel()
	fault := x.Authorize(ctx, serve.Inspect, t.Address, "")
	var p parameters
	if fault == nil {
		p, fault = x.params("limit", "after", "value_bytes")
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	var q host.InspectQuery
	if s, ok := p.one("after"); ok {
		if q.After, fault = decodeKey(s); fault != nil {
			x.Fail(fault)
			return
		}
	}
	if q.Limit, fault = p.number("limit", 1, maxPage); fault == nil {
		q.ValueBytes, fault = p.number("value_bytes", 0, 16<<20)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	page, err := x.g.node.Inspect(ctx, t.Address, q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	out := keysPage{Keys: page.Keys, Next: base64.RawURLEncoding.EncodeToString(page.Next)}
	if out.Keys == nil {
		out.Keys = []host.StoredKey{}
	}
	x.JSON(http.StatusOK, out)
}

// decodeKey reads a key in base64, in either alphabet and with or without padding, so that both
// "next" and the "key" of an entry can continue a page.
func decodeKey(s string) ([]byte, *host.Error) {
	s = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(s), "=")
	key, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, wrong("after", "the parameter after is not base64url")
	}
	return key, nil
}

// health answers GET /healthz.
func (x *exchange) health() {
	if fault := x.Authorize(x.R.Context(), serve.Health, host.Address{}, ""); fault != nil {
		x.Fail(fault)
		return
	}
	err := x.g.opts.Health()
	switch e := (*host.Error)(nil); {
	case x.Front.Closing():
		x.Fail(serve.ErrShutdown)
	case err == nil:
		x.JSON(http.StatusOK, map[string]string{"status": "ok"})
	case errors.As(err, &e):
		x.FailStatus(e, http.StatusServiceUnavailable)
	default:
		x.Front.Logger.Warn("node is not healthy", "error", err)
		x.Fail(host.Errorf(host.Unavailable, "the node cannot serve").Retry())
	}
}

// metrics answers GET /metrics.
func (x *exchange) metrics() {
	if fault := x.Authorize(x.R.Context(), serve.Metrics, host.Address{}, ""); fault != nil {
		x.Fail(fault)
		return
	}
	x.Pass(x.g.metrics)
}
