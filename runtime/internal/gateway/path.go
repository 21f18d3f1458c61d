package gateway

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// A route is the destination of a path, regardless of the HTTP method.
type route uint8

const (
	nowhere route = iota
	toCall
	toActor
	toKeys
	toTraces
	toAudit
	toEvents
	toWatch
	toFeed
	toConnect
	toQueue
	toStream
	toSQLite
	toKV
	toEntry
	toCodebolt
	toCodeboltEvents
	toKeyVal
	toStrata
	toList
	toRuns
	toRunCounts
	toSampling
	toTrace
	toUsage
	toTop
	toChanges
	toQueryMany
	toHealth
	toMetrics
	toOpenAPI
	toDashboard
)

// A target is a parsed path.
type target struct {
	host.Address
	route route
	name  string // of the method, queue, stream or operation
	// segments are the rest of the path, after the name of another product's interface.
	segments []string
}

// parseTarget parses the path of a request. The route is nowhere, without an error, if no route has
// the path.
//
// An actor's paths are /actors/{type}/{key parts...}/-/{what}. Segments are percent-encoded.
// Clients and proxies rewrite some paths: browsers resolve %2E%2E as "..", and proxies turn %2D
// into "-". So some key parts need a second escape: a part that is empty, ".", ".." or "-", or that
// begins with "~", is sent with a "~" in front. So every key has a path that survives. The rules:
//
//  1. The first segment after the type that was sent as exactly "-" ends the key.
//  2. Segments "", "." and ".." are refused: a proxy on the way would change or remove them.
//  3. A segment that begins with "~", after percent-decoding, must be "~", "~.", "~..", "~-" or
//     begin with "~~". Others are refused, so that no key has a second path by accident.
//  4. Percent-encoded forms of "." and "-" that arrive as sent mean the parts "." and "-".
//
// net/http's ServeMux is not used because it redirects paths that are not clean.
func parseTarget(u *url.URL) (target, *host.Error) {
	// If RawPath is empty, the path has only one encoding, and Path holds its segments. If
	// middleware changed Path and left RawPath, Path counts, as in net/url.
	path, encoded := u.Path, false
	if u.RawPath != "" {
		if p, err := url.PathUnescape(u.RawPath); err == nil && p == u.Path {
			path, encoded = u.RawPath, true
		}
	}
	if rest, ok := strings.CutPrefix(path, "/kv/"); ok {
		return parseCell(rest, encoded)
	}
	rest, ok := strings.CutPrefix(path, "/actors")
	switch {
	case !ok:
		switch path {
		case "/workflows":
			return target{route: toRuns}, nil
		case "/workflows/counts":
			return target{route: toRunCounts}, nil
		case "/-/traces/sampling":
			return target{route: toSampling}, nil
		case "/-/traces":
			return target{route: toTrace}, nil
		case "/-/usage":
			return target{route: toUsage}, nil
		case "/-/top":
			return target{route: toTop}, nil
		case "/-/changes":
			return target{route: toChanges}, nil
		case "/-/audit":
			return target{route: toAudit}, nil
		case "/query":
			return target{route: toQueryMany}, nil
		case "/healthz":
			return target{route: toHealth}, nil
		case "/metrics":
			return target{route: toMetrics}, nil
		case "/openapi.json":
			return target{route: toOpenAPI}, nil
		case "/dashboard":
			return target{route: toDashboard}, nil
		}
		if strings.HasPrefix(path, "/dashboard/") {
			return target{route: toDashboard}, nil
		}
		return target{}, nil
	case rest == "":
		return target{route: toList}, nil
	case rest[0] != '/':
		return target{}, nil
	case rest == "/":
		return target{},
			host.Errorf(host.InvalidArgument, "the path names no actor type: use /actors?type= to list actors")
	}
	return parseActor(rest[1:], encoded)
}

// parseActor parses the path after "/actors/".
func parseActor(rest string, encoded bool) (target, *host.Error) {
	if !strings.Contains(rest, "/-/") && !strings.HasSuffix(rest, "/-") {
		return target{}, host.Errorf(host.InvalidArgument,
			`the path of an actor is /actors/{type}/{key parts}/-/: the "/-/" after the key is missing`)
	}
	var t target
	raw, rest, _ := strings.Cut(rest, "/")
	var fault *host.Error
	if t.Type, fault = segment(raw, encoded, "the actor type"); fault != nil {
		return target{}, fault
	}
	for {
		raw, rest, _ = strings.Cut(rest, "/")
		if raw == "-" {
			break
		}
		part, fault := segment(raw, encoded, "")
		if fault != nil {
			fault.Message = "part " + strconv.Itoa(len(t.Key)+1) + " of the key" + fault.Message
			return target{}, fault
		}
		t.Key = append(t.Key, part)
	}
	switch rest {
	case "":
		t.route = toActor
	case "keys":
		t.route = toKeys
	case "traces":
		t.route = toTraces
	case "audit":
		t.route = toAudit
	case "events":
		t.route = toEvents
	case "kv-watch":
		t.route = toWatch
	case "kv-feed":
		t.route = toFeed
	case "connect":
		t.route = toConnect
	case entryPath:
		t.route, t.segments = toEntry, []string{entryPath}
	case "sqlite":
		t.route = toSQLite
	case "kv":
		t.route = toKV
	default: // it ends with a name
		what, name, _ := strings.Cut(rest, "/")
		to, noun := nowhere, ""
		switch what {
		case "kvstore", "keyval", "strata":
			t.route = map[string]route{"kvstore": toCodebolt, "keyval": toKeyVal, "strata": toStrata}[what]
			if what == "kvstore" && name == "ws" {
				t.route = toCodeboltEvents
				return t, nil
			}
			if name != "" {
				t.segments, fault = segments(name, encoded)
			}
			return t, fault
		case "kv":
			if name == "" { // a client has the path with a slash
				t.route = toKV
				return t, nil
			}
			to, noun = toKV, "operation"
		case "call":
			to, noun = toCall, "action or query"
		case "queues":
			to, noun = toQueue, "queue"
		case "streams":
			to, noun = toStream, "stream"
		}
		switch {
		case to == nowhere, strings.Contains(name, "/"):
			return t, nil
		case name == "":
			return target{}, host.Errorf(host.InvalidArgument, "the path names no %s after /-/%s/", noun, what)
		}
		if t.name, fault = segment(name, encoded, "the name of the "+noun); fault != nil {
			return target{}, fault
		}
		t.route = to
	}
	return t, nil
}

// cellType is the type of cells, whose databases have a short path.
const cellType = "cell"

// parseCell parses the path after "/kv/", the key of a cell.
func parseCell(rest string, encoded bool) (target, *host.Error) {
	t := target{route: toKV, Address: host.Address{Type: cellType}}
	for raw := range strings.SplitSeq(rest, "/") {
		part, fault := segment(raw, encoded, "")
		if fault != nil {
			fault.Message = "part " + strconv.Itoa(len(t.Key)+1) + " of the key" + fault.Message
			return target{route: toKV}, fault
		}
		t.Key = append(t.Key, part)
	}
	return t, nil
}

// segments decodes the segments of another product's path, which has only the escapes of URLs.
func segments(path string, encoded bool) (list []string, fault *host.Error) {
	for raw := range strings.SplitSeq(path, "/") {
		s := raw
		if encoded && strings.IndexByte(raw, '%') >= 0 {
			var err error
			if s, err = url.PathUnescape(raw); err != nil {
				return nil, host.Errorf(host.InvalidArgument, "the path has a bad percent-encoding")
			}
		}
		switch {
		case !utf8.ValidString(s):
			return nil, host.Errorf(host.InvalidArgument, "the path is not valid UTF-8")
		case raw == "":
			return nil, host.Errorf(host.InvalidArgument, "the path has an empty segment")
		}
		list = append(list, s)
	}
	return list, nil
}

// segment decodes one segment of a path. subject begins the message of the error.
func segment(raw string, encoded bool, subject string) (string, *host.Error) {
	bad := func(why string) (string, *host.Error) {
		return "", &host.Error{Code: host.InvalidArgument, Message: subject + " " + why}
	}
	switch raw {
	case "":
		return bad(`is empty: an empty segment is written "~"`)
	case ".", "..":
		return bad(`is "` + raw + `", which clients and proxies resolve: it is written "~` + raw + `"`)
	case "-":
		return bad(`is "-", which ends the key: it is written "~-"`)
	}
	s := raw
	if encoded && strings.IndexByte(raw, '%') >= 0 {
		var err error
		if s, err = url.PathUnescape(raw); err != nil {
			return bad("has a bad percent-encoding")
		}
	}
	if !utf8.ValidString(s) {
		return bad("is not valid UTF-8")
	}
	if s[0] == '~' {
		switch {
		case s == "~", s == "~.", s == "~..", s == "~-", strings.HasPrefix(s, "~~"):
			return s[1:], nil
		}
		return bad(`begins with "~", which is written "~~"`)
	}
	return s, nil
}
