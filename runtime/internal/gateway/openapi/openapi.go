package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// An object is a JSON object under construction. Its members are written in alphabetical order, so
// equal nodes have equal documents.
type object = map[string]any

// A document is the OpenAPI 3.1 description of one node under construction.
type document struct {
	node    *Node
	paths   object
	schemas object // the components that operations refer to, by name
	tags    []object
}

// A Node is the node of a document.
type Node struct {
	Behaviors []*host.Behavior
	Token     bool // requests need a bearer token
	Databases bool // the databases of actors can be exported and imported
	Runs      bool // the workflow runs that are paused or have failed can be listed
	Traces    bool // spans of a trace can be found
	Sampling  bool // the rules of recorded traces can be set
	Usage     bool // the work of actors is counted
	// MaxPage is the largest page of a request, MaxIdempotencyKey the longest Idempotency-Key
	// header, and MaxReason the longest reason for an import.
	MaxPage, MaxIdempotencyKey, MaxReason int
	// DatabaseType is the media type of a database file.
	DatabaseType string
}

// Document returns the OpenAPI 3.1 document of a node: a path for each method of each type, and for
// each other operation on its actors. Equal nodes have equal documents.
func Document(n Node) ([]byte, error) {
	d := document{node: &n, paths: object{}, schemas: object{}}
	d.nodePaths()
	for _, b := range n.Behaviors {
		d.actorType(b)
	}
	all := object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "Cairn node",
			"version": buildVersion(),
			"description": "The actors of one node over HTTP. An actor is named by its type and key, comes into being with the " +
				"first call to it, and a reply means that everything the call did is durable. A call may send CBOR " +
				"(application/cbor) in place of JSON, with the same members; its output is then CBOR as well.",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []object{{"url": "/", "description": "The node that serves this document."}},
		"tags":       d.tags,
		"paths":      d.paths,
		"components": d.components(),
	}
	if n.Token {
		all["security"] = []object{{"bearer": []string{}}}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		return nil, fmt.Errorf("gateway: OpenAPI document: %w", err)
	}
	return out.Bytes(), nil
}

// buildVersion returns the version of this module in the running program.
func buildVersion() string {
	const module = "github.com/cairn-run/cairn"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return strings.Trim(m.Version, "()")
		}
	}
	return "devel"
}

// nodePaths describes the paths outside of actor types.
func (d *document) nodePaths() {
	const tag = "node"
	d.tags = append(d.tags, object{"name": tag, "description": "The node itself."})
	shape := shaper{d: d}
	d.path("/actors", http.MethodGet, operation{
		id: "list", tag: tag, summary: "Lists actors, by default in the order of their keys, without waking them.",
		parameters: []any{
			query("type", "The actor type; without it, actors of all types.", object{"type": "string"}),
			query("prefix", "A leading part of the key; given more than once, the parts in order.",
				object{"type": "array", "items": object{"type": "string"}}),
			query("where",
				"A condition, such as plan=pro, size>1MiB, updated<2026-01-31 or state=failed; given more than once, all of them hold. An actor without the attribute meets no condition on it. Without a type, they select actors of all types.",
				object{"type": "array", "items": object{"type": "string"}}),
			query("sort",
				"What orders the actors: key, state, size, updated or an attribute, after - from the last to the first. Actors of the same value are in the order of their types and keys. Actors without the attribute are left out. Without a type, key orders by type first. Without sort and where, the order is that of key.", object{"type": "string"}),
			query("limit", "How many actors a page has at most; 100 by default.", between(1, d.node.MaxPage)),
			query("cursor", "Continues an earlier page: its cursor.", object{"type": "string"}),
			query("brief", "Sets only id, type and key of each actor, which is much cheaper.",
				object{"type": "boolean"}),
		},
		success: answer("A page.", shape.of(typeOf[host.ListPage]())),
	})
	if d.node.Runs {
		d.path("/workflows", http.MethodGet, operation{
			id: "runs", tag: tag, summary: "Lists the workflow runs that are paused or have failed, without waking an actor.",
			parameters: []any{
				query("type", "The actor type; without it, runs of all types.", object{"type": "string"}),
				query("state", "The state; without it, both.",
					object{"type": "string", "enum": []string{"paused", "failed"}}),
				query("reason", "Why the run is paused.", object{"type": "string"}),
				query("before", "Only runs that were paused, or had failed, at this time.",
					object{"type": "string", "format": "date-time"}),
				query("limit", "How many runs a page has at most; 100 by default.", between(1, d.node.MaxPage)),
				query("cursor", "Continues an earlier page: its cursor.", object{"type": "string"}),
			},
			success: answer("A page.", shape.of(typeOf[host.RunPage]())),
		})
		d.path("/workflows/counts", http.MethodGet, operation{
			id: "runCounts", tag: tag, summary: "Counts the workflow runs that are paused or have failed.",
			success: answer("The counts.", shape.of(typeOf[host.RunCounts]())),
		})
	}
	d.path("/-/changes", http.MethodGet, operation{
		id: "changes", tag: tag, summary: "Follows what changes in all actors, as it becomes durable.",
		description: "Server-sent events, one for each turn that changed something: the event changes, whose data is a record. What the client " +
			"is too slow for is left out, and a record with a gap says so.",
		parameters: []any{
			query("type", "Only actors of this type.", object{"type": "string"}),
			query("prefix", "A leading part of the key; given more than once, the parts in order.",
				object{"type": "array", "items": object{"type": "string"}}),
			query("kinds", "Only changes of these kinds, with commas between them.", object{"type": "string"}),
		},
		success: serverSentEvents("A stream of changes.", object{"changes": shape.of(typeOf[changes.Record]())}),
	})
	log := d.auditLog("Shows what operators did to actors: the audit log.",
		query("type", "The actor type; without it, records of actors of all types.", object{"type": "string"}),
		query("prefix", "A leading part of the key; given more than once, the parts in order.",
			object{"type": "array", "items": object{"type": "string"}}))
	log.id, log.tag = "audit", tag
	d.path("/-/audit", http.MethodGet, log)
	if d.node.Traces {
		d.path("/-/traces", http.MethodGet, operation{
			id: "findTrace", tag: tag, summary: "Lists the spans of one trace, of all actors, without waking them. A page ends when the node has read for a second.",
			parameters: []any{
				query("trace", "The id of the trace.", object{"type": "string", "pattern": "^[0-9a-f]{32}$"}),
				query("type", "Only actors of this type.", object{"type": "string"}),
				query("start", "Only spans that go on at this time or later.",
					object{"type": "string", "format": "date-time"}),
				query("end", "Only spans that begin before this time.",
					object{"type": "string", "format": "date-time"}),
				query("cursor", "Continues an earlier page: its cursor.", object{"type": "string"}),
			},
			success: answer("A page.", shape.of(typeOf[trace.FindPage]())),
		})
	}
	if d.node.Sampling {
		rules := answer("The rules that hold.", shape.of(typeOf[trace.Sampling]()))
		d.path("/-/traces/sampling", http.MethodGet, operation{
			id: "sampling", tag: tag, summary: "Says which of the traces that begin at the node are recorded.", success: rules,
		})
		d.path("/-/traces/sampling", http.MethodPut, operation{
			id: "setSampling", tag: tag, summary: "Replaces the rules for traces until the next start of the node. What the body lacks is as configured.",
			parameters: []any{parameter("Reason")}, body: object{"content": inJSON(shaper{d: d,
				input: true}.of(typeOf[trace.Sampling]()))},
			success: rules, errors: append(slices.Clone(plainStatuses),
				http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge),
		})
	}
	if d.node.Usage {
		page := answer("A page.", shape.of(typeOf[usage.Page]()))
		page["200"].(object)["content"].(object)["text/csv"] = object{"schema": object{"type": "string"}}
		d.path("/-/usage", http.MethodGet, operation{
			id: "usage", tag: tag, summary: "Says what actors did on a day, in the order of their keys, without waking them.",
			parameters: []any{
				query("day", "The day, in UTC; today by default. 35 days are kept.",
					object{"type": "string", "format": "date"}),
				query("type", "The actor type; without it, actors of all types.", object{"type": "string"}),
				query("prefix", "A leading part of the key; given more than once, the parts in order.",
					object{"type": "array", "items": object{"type": "string"}}),
				query("limit", "How many actors a page has at most; 100 by default.", between(1, usage.MaxPage)),
				query("cursor",
					"Continues an earlier page: its cursor, which is also in the header Cairn-Cursor.", object{"type": "string"}),
				query("format", "What the answer is.", object{"type": "string", "enum": []string{"json", "csv"}}),
			},
			success: page,
		})
		d.path("/-/top", http.MethodGet, operation{
			id: "top", tag: tag, summary: "Lists the actors in memory that did most in the last minute.",
			parameters: []any{
				query("by", "What they are compared by; time by default, which is the time in handlers.",
					object{"type": "string", "enum": usage.Measures()}),
				query("limit", "How many actors; 10 by default.", between(1, usage.MaxPage)),
			},
			success: answer("The actors, the first above all.", shape.of(typeOf[usage.Top]())),
		})
	}
	if d.node.Databases {
		d.path("/query", http.MethodPost, operation{
			id: "queryMany", tag: tag, summary: "Runs a read-only SQL statement on the databases of many actors, without waking them.",
			body:    object{"required": true, "content": inJSON(shape.of(typeOf[host.QueryManyInput]()))},
			success: answer("The rows, by actor.", shape.of(typeOf[host.QueryManyOutput]())),
		})
	}
	d.path("/healthz", http.MethodGet, operation{
		id: "health", tag: tag, summary: "Says whether the node can serve.", open: true,
		success: answer("It can.", object{
			"type": "object", "properties": object{"status": object{"const": "ok"}}, "required": []string{"status"},
		}),
		errors: []int{http.StatusServiceUnavailable, http.StatusForbidden},
	})
	d.path("/metrics", http.MethodGet, operation{
		id: "metrics", tag: tag, summary: "Metrics in the text format of Prometheus.",
		success: object{"200": object{
			"description": "The metrics.", "content": object{"text/plain": object{"schema": object{"type": "string"}}},
		}},
	})
	d.path("/openapi.json", http.MethodGet, operation{
		id: "openapi", tag: tag, summary: "This document.",
		success: answer("The document.", object{"type": "object", "additionalProperties": true}),
	})
}

// auditLog describes a read of the audit log. parameters are only for its path.
func (d *document) auditLog(summary string, parameters ...any) operation {
	at := object{"type": "string", "format": "date-time"}
	id := object{"type": "integer", "minimum": 1}
	return operation{
		summary: summary,
		description: "For operators. With \"Accept: text/event-stream\" the answer is server-sent events, one for each record as it is made: the " +
			"event audit, whose data is a record. It takes no until, limit and cursor.",
		parameters: append(parameters,
			query("verb", "Only records of this method.", object{"type": "string"}),
			query("since", "Only records of this time or later.", at),
			query("until", "Only records before this time.", at),
			query("after", "Only records after the one with this id.", id),
			query("limit", "How many records a page has at most; 100 by default.", between(1, audit.MaxPage)),
			query("cursor", "Continues an earlier page: its cursor.", id),
		),
		success: answer("A page, the latest record first.", shaper{d: d}.of(typeOf[audit.Page]())),
	}
}

// An operation is one HTTP method of a path.
type operation struct {
	id, tag, summary, description string
	parameters                    []any
	body                          any // a request body object; nil for none
	success                       object
	errors                        []int // statuses; nil means plainStatuses
	open                          bool  // needs no token
	keyValue                      bool  // takes tokens of the actor
}

// path adds an operation.
func (d *document) path(path, method string, o operation) {
	responses := maps.Clone(o.success)
	if o.errors == nil {
		o.errors = plainStatuses
	}
	for _, status := range o.errors {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/" + strconv.Itoa(status)}
	}
	op := object{"operationId": o.id, "tags": []string{o.tag}, "summary": o.summary, "responses": responses}
	if o.description != "" {
		op["description"] = o.description
	}
	if len(o.parameters) > 0 {
		op["parameters"] = o.parameters
	}
	if o.body != nil {
		op["requestBody"] = o.body
	}
	switch {
	case o.open:
		op["security"] = []object{}
	case o.keyValue && d.node.Token:
		op["security"] = []object{{"bearer": []string{}}, {"token": []string{}}}
	case o.keyValue:
		op["security"] = []object{{}, {"token": []string{}}}
	}
	item, ok := d.paths[path].(object)
	if !ok {
		item = object{}
		d.paths[path] = item
	}
	item[strings.ToLower(method)] = op
}

// plainStatuses are the statuses of operations that run no code of the actor.
var plainStatuses = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusGone, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	http.StatusGatewayTimeout,
}

// callStatuses returns the statuses of operations that run code of the actor: all statuses.
func callStatuses() []int {
	statuses := []int{http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType}
	for _, c := range host.Codes() {
		statuses = append(statuses, serve.Status(c))
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

// answer returns a success with a body in JSON.
func answer(description string, schema any) object {
	return object{"200": object{"description": description, "content": inJSON(schema)}}
}

func inJSON(schema any) object { return object{"application/json": object{"schema": schema}} }

func query(name, description string, schema object) object {
	return object{"name": name, "in": "query", "description": description, "schema": schema}
}

// A position, as in host.ParsePosition: the sequence, or the sequence, "@" and the id of the
// actor's life.
const lifePattern = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

var position = object{"type": "string", "pattern": "^[0-9]+(@" + lifePattern + ")?$",
	"examples": []any{"17@0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14", "17"}}

func between(lo, hi int) object { return object{"type": "integer", "minimum": lo, "maximum": hi} }

func parameter(name string) object { return object{"$ref": "#/components/parameters/" + name} }

// components returns the components that operations share.
func (d *document) components() object {
	header := func(name, description string, schema object) object {
		return object{"name": name, "in": "header", "description": description, "schema": schema}
	}
	star := object{"type": "string", "const": "*"}
	c := object{
		"schemas": d.schemas,
		"parameters": object{
			"Key": object{
				"name": "key", "in": "path", "required": true, "schema": object{"type": "string"},
				"description": "The actor's key. Each part of a key is a segment of its own: the key a, b is a/b in the path, which " +
					"makes this parameter span segments; a \"/\" inside a part is %2F. An actor without key parts has the path " +
					"/actors/{type}/-/. A part that is empty, \".\", \"..\" or \"-\", or that begins with \"~\", gets a \"~\" in front.",
			},
			"IdempotencyKey": header("Idempotency-Key",
				"The reply is kept for 24 hours under this key, and a repeated request gets it.",
				object{"type": "string", "minLength": 1, "maxLength": d.node.MaxIdempotencyKey}),
			"IfMatch":     header("If-Match", "The actor must exist.", star),
			"IfNoneMatch": header("If-None-Match", "The actor must not exist.", star),
			"Traceparent": header("Traceparent", "W3C trace context; ignored if malformed.", object{"type": "string"}),
			"Reason": header("Cairn-Reason",
				"Why the call is made, for the audit log: up to 1,000 characters of UTF-8, percent-encoded.", object{"type": "string"}),
			"Connection": header("Cairn-Connection",
				"The token of the caller's connection, for clients whose connection carries events only.", object{"type": "string"}),
			"LastEventID": header("Last-Event-ID", "The id of the last event that the client has; the same as after=.",
				position),
			"After": query("after",
				"The position of what the client got last, the id of its event; what follows comes.", position),
		},
		"headers": object{
			"Cairn-Version": object{"description": "The version of the actor that the answer reflects.",
				"schema": object{"type": "integer", "minimum": 0}},
			"Idempotency-Replayed": object{"description": "The answer was stored by an earlier request with the same idempotency key.",
				"schema": object{"const": "true"}},
			"Location": object{"description": "The actor's path.", "schema": object{"type": "string"}},
			"Retry-After": object{"description": "Seconds until it is worth trying again.",
				"schema": object{"type": "integer", "minimum": 1}},
			"WWW-Authenticate": object{"description": "What to authenticate with.", "schema": object{"type": "string"}},
			"Allow":            object{"description": "The methods of the path.", "schema": object{"type": "string"}},
		},
		"responses": d.failures(),
	}
	schemes := object{"token": object{
		"type": "http", "scheme": "bearer",
		"description": "A token of the actor for its key-value store, as token.create makes it. It allows its rights for the keys with its prefix.",
	}}
	if d.node.Token {
		schemes["bearer"] = object{"type": "http", "scheme": "bearer", "description": "The node's token."}
	}
	c["securitySchemes"] = schemes
	return c
}

// failures returns the responses with an error, by status.
func (d *document) failures() object {
	failure := shaper{d: d}.of(typeOf[host.Error]())
	all := object{}
	for _, status := range callStatuses() {
		var text []string
		for _, c := range host.Codes() {
			if serve.Status(c) == status {
				text = append(text, "`"+string(c)+"`: "+hostText["Code."+string(c)])
			}
		}
		response := object{"description": strings.Join(text, "\n\n"), "content": inJSON(failure)}
		headers := object{}
		add := func(name string) { headers[name] = object{"$ref": "#/components/headers/" + name} }
		switch status {
		case http.StatusUnauthorized:
			add("WWW-Authenticate")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			add("Retry-After")
		case http.StatusMethodNotAllowed:
			add("Allow")
			response["description"] = "`invalid_argument`: The method does not apply to the path."
		case http.StatusUnsupportedMediaType:
			response["description"] = "`invalid_argument`: The body is neither JSON nor CBOR."
		}
		if len(headers) > 0 {
			response["headers"] = headers
		}
		all[strconv.Itoa(status)] = response
	}
	return all
}
