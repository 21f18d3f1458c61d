package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/trace"
)

// A typeDocument describes one actor type, as a part of a document.
type typeDocument struct {
	*document
	b                          *host.Behavior
	base                       string // the paths of an actor begin with it
	queues, schedules, streams *family
	workflows                  *family
	workers                    *family // the queues that clients receive from
	external                   *family // the streams that clients append to
}

// actorType describes the operations of one actor type.
func (d *document) actorType(b *host.Behavior) {
	t := &typeDocument{document: d, b: b, base: "/actors/" + b.Type + "/{key}/-/"}
	t.families()
	d.tags = append(d.tags, object{"name": b.Type, "description": t.about()})
	t.lifecycle()
	t.databases()
	t.traces()
	t.add("audit", http.MethodGet, "audit",
		t.document.auditLog("Shows what operators did to an actor: its records of the audit log. The actor need not be there."))
	t.denoKV()
	t.otherProducts()
	for i, m := range b.Methods {
		t.method(i, m)
	}
	t.connections()
	t.follows()
	t.entry()
	t.watch()
	t.feed()
	t.builtins()
}

// families collects the value schemas of the type's queues, schedules and streams. A family without
// members is nil.
func (t *typeDocument) families() {
	d, b := t.document, t.b
	value := func(kind host.ValueKind, index int) any {
		schema, exists := d.value(b, kind, index, "in")
		if !exists {
			return object{"type": "null"}
		}
		return schema
	}
	pick := func(field string, n int, name func(int) string, belongs func(int) bool, value func(int, string) any) *family {
		f := &family{field: field}
		var index []int
		for i := range n {
			if name(i) != host.AnyName {
				f.declared = append(f.declared, name(i))
			}
			if belongs(i) {
				f.names, index = append(f.names, name(i)), append(index, i)
			}
		}
		f.value = func(i int, member string) any { return value(index[i], member) }
		if len(f.names) == 0 {
			return nil
		}
		return f
	}
	all := func(int) bool { return true }
	queueName := func(i int) string { return b.Queues[i].Name }
	queueValue := func(i int, member string) any {
		if member == "reply" {
			return value(host.QueueReplyValue, i)
		}
		return value(host.QueueBody, i)
	}
	t.queues = pick("queue", len(b.Queues), queueName, all, queueValue)
	t.workers = pick("queue", len(b.Queues), queueName,
		func(i int) bool { return b.Queues[i].Handler == "" && !b.Queues[i].ByRun }, queueValue)
	t.schedules = pick("name", len(b.Schedules), func(i int) string { return b.Schedules[i].Name }, all,
		func(i int, _ string) any { return value(host.SchedulePayload, i) })
	t.workflows = pick("workflow", len(b.Workflows), func(i int) string { return b.Workflows[i].Name }, all,
		func(i int, _ string) any { return value(host.WorkflowInput, i) })
	streamName := func(i int) string { return b.Streams[i].Name }
	streamValue := func(i int, _ string) any { return value(host.StreamValue, i) }
	t.streams = pick("stream", len(b.Streams), streamName, all, streamValue)
	t.external = pick("stream", len(b.Streams), streamName,
		func(i int) bool { return b.Streams[i].External }, streamValue)
}

// about describes the parts of the type in words.
func (t *typeDocument) about() string {
	text := fmt.Sprintf("Actors of the type %s.", t.b.Type)
	list := func(what string, f *family) {
		if f == nil {
			return
		}
		names := strings.ReplaceAll(strings.Join(f.names, ", "), host.AnyName, "any name")
		text += fmt.Sprintf(" %s: %s.", what, names)
	}
	list("Queues", t.queues)
	list("Schedules", t.schedules)
	list("Streams", t.streams)
	if names := t.eventNames(func(host.Event) bool { return true }); len(names) > 0 {
		text += " Events: " + strings.Join(names, ", ") + "."
	}
	return text
}

func (t *typeDocument) eventNames(which func(host.Event) bool) []string {
	var names []string
	for _, e := range t.b.Events {
		if which(e) {
			names = append(names, e.Name)
		}
	}
	return names
}

// add adds an operation of the type's actors. verb and the type make its id.
func (t *typeDocument) add(path, method, verb string, o operation) {
	o.id = verb + "." + t.b.Type
	o.tag = t.b.Type
	o.parameters = append([]any{parameter("Key")}, o.parameters...)
	o.keyValue = strings.HasPrefix(path, "kv") || strings.HasPrefix(path, "keyval/") ||
		strings.HasPrefix(path, "call/kv.")
	t.path(t.base+path, method, o)
}

// lifecycle describes creation, status, destruction and the raw keyspace.
func (t *typeDocument) lifecycle() {
	status := shaper{d: t.document}.of(typeOf[host.Status]())
	t.add("", http.MethodGet, "status", operation{
		summary: "Describes an actor, without waking it.", success: versioned(answer("The actor.", status)),
	})
	created := object{"201": object{
		"description": "The actor as it is now; no body if it is gone again.", "content": inJSON(status),
		"headers": headers("Cairn-Version", "Location", "Idempotency-Replayed"),
	}}
	create := operation{
		summary: "Creates an actor explicitly.", success: created, errors: callStatuses(),
		parameters: []any{parameter("IdempotencyKey"), parameter("IfNoneMatch"), parameter("Traceparent")},
	}
	var creations []int
	for i, m := range t.b.Methods {
		if m.Kind == host.Creation {
			creations = append(creations, i)
		}
	}
	if len(creations) == 1 {
		if schema, exists := t.value(t.b, host.MethodInput, creations[0], "in"); exists {
			create.body = body(schema, false)
			create.description = "The body is the input of the type's creation; without one the actor is created without input."
		}
	}
	t.add("", http.MethodPut, "create", create)
	t.add("", http.MethodDelete, "destroy", operation{
		summary: "Destroys an actor and all its data.", parameters: []any{parameter("Reason")},
		success: object{"204": object{"description": "It is gone."}}, errors: callStatuses(),
	})
	page := shaper{d: t.document}.of(typeOf[host.StoredKey]())
	t.add("keys", http.MethodGet, "keys", operation{
		summary: "Reads the raw keyspace of an actor, without waking it.",
		parameters: []any{
			query("limit", "How many keys a page has at most; 100 by default.", between(1, t.node.MaxPage)),
			query("after", "Continues after this key, in base64: an earlier page's next.", object{"type": "string"}),
			query("value_bytes", "How much of each value to return; 0 by default.", between(0, 16<<20)),
		},
		success: answer("A page.", object{"type": "object", "required": []string{"keys"}, "properties": object{
			"keys": object{"type": "array", "items": page},
			"next": object{"type": "string", "description": "Continues after the page; absent at the end."},
		}}),
	})
}

// traces describes how spans are read.
func (t *typeDocument) traces() {
	at := object{"type": "string", "format": "date-time"}
	t.add("traces", http.MethodGet, "traces", operation{
		summary: "Shows the spans that an actor has recorded, without waking it.",
		description: "For operators. With \"Accept: text/event-stream\" the answer is server-sent events, one for each span as it ends: the event span, " +
			"whose data is a span of trace.read. Only trace_id, name and errors narrow that. The id of the first event is the actor's life.",
		parameters: []any{
			query("start", "Only what goes on at this time or later.", at),
			query("end", "Only what begins before this time.", at),
			query("trace_id", "Only one trace: 32 hexadecimal digits.", object{"type": "string"}),
			query("name", "Only spans with this name.", object{"type": "string"}),
			query("errors", "Only spans that ended with an error.", object{"type": "boolean"}),
			query("limit", "How many spans a page has at most; 1,000 by default.", between(1, trace.MaxPage)),
			query("max_bytes",
				"How many bytes the spans of a page and their parents have at most; 4 MiB by default.", between(1, trace.MaxBytes)),
			query("cursor", "Continues after a page: its header Cairn-Cursor.", object{"type": "string"}),
			object{"name": "Last-Event-ID", "in": "header", "schema": object{"type": "string"},
				"description": "For server-sent events, the id of those before: the code is destroyed if that life of the actor has ended."},
		},
		success: answer("An ExportTraceServiceRequest of OTLP.",
			object{"type": "object", "required": []string{"resourceSpans"}, "properties": object{
				"resourceSpans": object{"type": "array", "items": object{"type": "object"}},
			}}),
	})
}

// databases describes the export and import of whole databases.
func (t *typeDocument) databases() {
	if !t.node.Databases {
		return
	}
	file := object{t.node.DatabaseType: object{"schema": object{"type": "string",
		"contentMediaType": t.node.DatabaseType}}}
	t.add("sqlite", http.MethodGet, "export", operation{
		summary: "Exports the actor's database as a SQLite file, as of one commit, without waking it.",
		description: "For operators. If the export fails half way the connection is cut, or the stream reset: what has come until then " +
			"is not a database.",
		success: object{"200": object{"description": "The file.", "content": file}}, errors: callStatuses(),
	})
	status := shaper{d: t.document}.of(typeOf[host.SQLStatusOutput]())
	t.add("sqlite", http.MethodPut, "import", operation{
		summary: "Replaces the actor's database by a SQLite file, in one commit. It creates the actor if need be.",
		parameters: []any{object{"name": "reason", "in": "query", "required": true, "description": "Why; it is logged.",
			"schema": object{"type": "string", "minLength": 1, "maxLength": t.node.MaxReason}}},
		description: "For operators.",
		body:        object{"required": true, "content": file},
		success:     answer("The database as it is now.", status), errors: callStatuses(),
	})
}

// denoKV describes the address for clients of Deno KV. The paths below it are of their protocol.
func (t *typeDocument) denoKV() {
	who := "For operators."
	if t.b.OpenKV {
		who = "For all callers."
	}
	word := object{"type": "string"}
	numbers := object{"type": "array", "items": object{"type": "integer"}}
	t.add("kv", http.MethodPost, "openKV", operation{
		summary:     "Opens the key-value store for a client of Deno KV: the metadata exchange of its protocol KV Connect.",
		description: who + " Errors are texts.",
		body: object{"required": true, "content": inJSON(object{
			"type": "object", "properties": object{"supportedVersions": numbers}, "required": []string{"supportedVersions"},
		})},
		success: object{
			"200": object{"description": "Where the store is.",
				"content": inJSON(object{"type": "object", "properties": object{
					"version": object{"type": "integer"}, "databaseId": word, "token": word, "expiresAt": word,
					"endpoints": object{"type": "array",
						"items": object{"type": "object", "properties": object{"url": word, "consistency": word}}},
				}})},
			"default": object{"description": "Why not.", "content": object{"text/plain": object{"schema": word}}},
		},
		errors: []int{},
	})
}

// method describes a method of the behavior.
func (t *typeDocument) method(i int, m host.Method) {
	o := operation{summary: fmt.Sprintf("Calls the %s %s.", m.Kind, m.Name)}
	input, takes := t.value(t.b, host.MethodInput, i, "in")
	if !takes {
		input = nil
	}
	output, gives := t.value(t.b, host.MethodOutput, i, "out")
	if !gives {
		output = nil
	}
	if t.b.Schema == nil {
		o.description = "What it takes and returns is not known to the node."
	}
	t.call(m.Name, m.Kind != host.Query, input, output, o)
}

// call describes a method of the type, or a built-in one. A nil schema means no value.
func (t *typeDocument) call(name string, writes bool, input, output any, o operation) {
	o.parameters = append(o.parameters, parameter("IfMatch"), parameter("IfNoneMatch"),
		parameter("Traceparent"), parameter("Connection"))
	if writes {
		o.parameters = append([]any{parameter("IdempotencyKey")}, o.parameters...)
	}
	if input != nil {
		o.body = body(input, true)
	}
	o.success = object{}
	if output != nil {
		o.success["200"] = object{"description": "The output.", "content": inJSON(output), "headers": replied()}
	}
	if output == nil || t.b.Schema == nil {
		o.success["204"] = object{"description": "Done; there is no output.", "headers": replied()}
	}
	o.errors = callStatuses()
	t.add("call/"+name, http.MethodPost, "call."+name, o)
}

// body returns a request body in JSON.
func body(schema any, required bool) object {
	return object{"required": required, "content": inJSON(schema)}
}

func headers(names ...string) object {
	all := object{}
	for _, name := range names {
		all[name] = object{"$ref": "#/components/headers/" + name}
	}
	return all
}

// replied returns the headers of replies to calls.
func replied() object { return headers("Cairn-Version", "Idempotency-Replayed") }

func versioned(success object) object {
	for _, response := range success {
		response.(object)["headers"] = headers("Cairn-Version")
	}
	return success
}

// serverSentEvents returns a response of server-sent events. OpenAPI cannot describe single events,
// so an extension names their values.
func serverSentEvents(description string, values object) object {
	content := object{"schema": object{"type": "string"}}
	if len(values) > 0 {
		content["x-cairn-data"] = values
	}
	return object{"200": object{"description": description, "content": object{"text/event-stream": content}}}
}

// events returns the schemas of the events that which selects, by name.
func (t *typeDocument) events(which func(host.Event) bool) object {
	values := object{}
	for i, e := range t.b.Events {
		if schema, exists := t.value(t.b, host.EventValue, i, "out"); exists && which(e) {
			values[e.Name] = schema
		}
	}
	return values
}

// connections describes how clients receive events, with and without a connection.
func (t *typeDocument) connections() {
	open := func(e host.Event) bool { return e.Subscribe == "" }
	if names := t.eventNames(open); len(names) > 0 && t.b.Connections.Connect == "" {
		t.add("events", http.MethodGet, "events", operation{
			summary: "Subscribes to the events of an actor, which it neither wakes nor creates.",
			parameters: []any{
				query("names", "The events, separated by commas; all by default.", list(names)),
				parameter("After"), parameter("LastEventID"),
			},
			success: serverSentEvents("Server-sent events with id, version, time, event and data. The event cairn.gap says how many "+
				"are no longer kept, cairn.bye with an error is the last.", t.events(open)),
		})
	}
	all := t.eventNames(func(host.Event) bool { return true })
	params, exists := t.value(t.b, host.ConnectParams, 0, "in")
	if !exists {
		params = object{}
	}
	values := t.events(func(host.Event) bool { return true })
	values["cairn.welcome"] = shaper{d: t.document}.of(typeOf[host.Welcome]())
	welcome := serverSentEvents("Server-sent events. The first is cairn.welcome with what is needed to come back, the last "+
		"cairn.bye with an error.", values)
	upgraded := maps.Clone(welcome)
	upgraded["101"] = object{"description": "A WebSocket with the subprotocol cairn.v1."}
	t.add("connect", http.MethodGet, "connect", operation{
		summary: "Connects a client to an actor, over a WebSocket or with server-sent events.",
		description: "With Upgrade: websocket, everything is said in messages on the socket, the parameters below included. Otherwise the " +
			"connection carries events, and calls name it in the header Cairn-Connection.",
		parameters: []any{
			query("events", "The events to subscribe to at once, separated by commas.", list(all)),
			parameter("After"), parameter("LastEventID"),
			query("token", "Resumes the connection that an earlier welcome was for.", object{"type": "string"}),
			object{"name": "params", "in": "query",
				"description": "The parameters of the connection.", "content": inJSON(params)},
		},
		success: upgraded, errors: callStatuses(),
	})
	t.add("connect", http.MethodPost, "connect_with_body", operation{
		summary:    "Connects a client to an actor with server-sent events; nothing of it stands in the URL.",
		parameters: []any{parameter("After"), parameter("LastEventID")},
		body: object{"content": inJSON(object{"type": "object", "additionalProperties": false, "properties": object{
			"params": params,
			"events": object{"type": "array", "items": object{"type": "string"}},
			"token": object{"type": "string",
				"description": "Resumes the connection that an earlier welcome was for."},
			"after": object{"type": "integer", "minimum": 0,
				"description": "The sequence of the last event that the client got."},
			"life": object{"type": "string", "pattern": "^(" + lifePattern + ")?$",
				"description": "The id of the actor's life that after counts in; empty or absent is the present one."},
		}})},
		success: welcome, errors: callStatuses(),
	})
	t.add("connect", http.MethodDelete, "disconnect", operation{
		summary:    "Ends the connection that the header Cairn-Connection names.",
		parameters: []any{required("Connection")},
		success:    object{"204": object{"description": "It has ended."}}, errors: callStatuses(),
	})
}

// required returns a required header parameter.
func required(name string) object {
	return object{"name": "Cairn-" + name, "in": "header", "required": true,
		"description": "The token of the connection.",
		"schema":      object{"type": "string"}}
}

// list returns the schema of names separated by commas.
func list(names []string) object {
	if len(names) == 0 {
		return object{"type": "string"}
	}
	return object{"type": "string", "description": "Any of: " + strings.Join(names, ", ")}
}

// follows describes the streams of server-sent events that are not events of the actor.
func (t *typeDocument) follows() {
	name := func(f *family, what string) object {
		return object{"name": "name", "in": "path", "required": true, "description": what, "schema": f.nameParameter()}
	}
	if f := t.workers; f != nil {
		message := shaper{d: t.document, typ: t.b.Type, family: f}.of(typeOf[host.ReceivedMessage]())
		t.add("queues/{name}", http.MethodGet, "listen", operation{
			summary: "Receives the messages of a queue as they come.",
			parameters: []any{
				name(f, "The queue."),
				query("limit",
					"How many messages the client may hold without settling them; 1 by default.", between(1, host.MaxQueueBatch)),
				query("lock_ms", "How long each message is locked; by default what the queue says.",
					between(1, int(host.MaxQueueDelay.Milliseconds()))),
			},
			success: serverSentEvents("Server-sent events: message with a message, cairn.bye with an error as the last.",
				object{"message": message}),
			errors: callStatuses(),
		})
	}
	if f := t.streams; f != nil {
		items := object{}
		for i, n := range f.names {
			items[n] = f.value(i, "value")
		}
		success := serverSentEvents("Server-sent events: item with the sequence as its id, cairn.gap if some are no longer kept, "+
			"cairn.end when the stream is closed.", items)
		success["204"] = object{"description": "The stream is closed, and the client has all of it."}
		t.add("streams/{name}", http.MethodGet, "follow", operation{
			summary:    "Follows a stream: brings the items after a position, and then each as it is appended.",
			parameters: []any{name(f, "The stream."), parameter("After"), parameter("LastEventID")},
			success:    success, errors: callStatuses(),
		})
	}
}

// watch describes the stream of changes of the key-value store.
func (t *typeDocument) watch() {
	key := object{"type": "array", "items": object{"type": "string"}}
	again := object{"name": "Last-Event-ID", "in": "header", "schema": object{"type": "string"},
		"description": "The id of the last event that the client has: the first changes are what is there, as with initial."}
	change := shaper{d: t.document, typ: t.b.Type}.of(typeOf[kv.Changes]())
	o := operation{
		summary: "Watches entries of the key-value store: tells their last state, each time that it is another one.",
		parameters: []any{
			query("key", `A key to watch, as a JSON array: ["user",7]. It may be given up to 1,000 times.`, key),
			query("prefix", "A prefix to watch, likewise, up to 16 times. [] is that of all keys.", key),
			query("initial", "Whether the first changes are what is there.", object{"type": "boolean"}),
			query("stored", `Whether values are the bytes that are stored, as {"$bytes":base64}.`,
				object{"type": "boolean"}),
			again,
		},
		success: serverSentEvents("Server-sent events: change with what is different, cairn.bye with an error as the last.", object{"change": change}),
		errors:  callStatuses(),
	}
	if method.KVWatch.Row.By(t.b.Open()) == method.Operators {
		o.description = "For operators."
	}
	t.add("kv-watch", http.MethodGet, "kv_watch", o)
	o.parameters = []any{again}
	o.body = object{"content": inJSON(shaper{d: t.document, typ: t.b.Type, input: true}.of(typeOf[kv.Watching]()))}
	t.add("kv-watch", http.MethodPost, "kv_watch_with_body", o)
}

// entry describes single entries of the key-value store, by their paths.
func (t *typeDocument) entry() {
	shape := shaper{d: t.document, typ: t.b.Type}
	parameters := []any{
		object{"name": "path", "in": "query", "required": true,
			"description": "The key as a path: users/i~7.", "schema": object{"type": "string"}},
		query("branch", "The name of a branch.", object{"type": "string"}),
	}
	version := query("version",
		"The version that the entry must have; 0 demands that there is none.", object{"type": "integer", "minimum": 0})
	get := operation{
		summary: "Reads an entry of the key-value store.",
		parameters: append(slices.Clip(parameters),
			query("at", "A version: the entry as it was then.", object{"type": "integer", "minimum": 1}),
			query("time", "A time instead.", object{"type": "string", "format": "date-time"})),
		success: object{"200": object{"description": "The entry.",
			"content": inJSON(shape.of(typeOf[kv.Entry]()))}}, errors: callStatuses(),
	}
	success := object{"200": object{"description": "What kv.commit answers.",
		"content": inJSON(shape.of(typeOf[kv.CommitOutput]()))}}
	put := operation{
		summary: "Puts an entry of the key-value store. The body is its value.",
		parameters: append(slices.Clip(parameters), version,
			query("ttl_ms", "How long it lives, in milliseconds; 0 is for ever.",
				object{"type": "integer", "minimum": 0})),
		body: body(object{}, true), success: success, errors: callStatuses(),
	}
	remove := operation{
		summary: "Deletes an entry of the key-value store.", parameters: append(slices.Clip(parameters), version), success: success, errors: callStatuses(),
	}
	if method.KVCommit.Row.By(t.b.Open()) == method.Operators {
		get.description, put.description, remove.description = "For operators.", "For operators.", "For operators."
		put.parameters, remove.parameters = append(put.parameters, parameter("Reason")),
			append(remove.parameters, parameter("Reason"))
	}
	t.add("kv-entry", http.MethodGet, "kv_entry", get)
	t.add("kv-entry", http.MethodPut, "kv_put_entry", put)
	t.add("kv-entry", http.MethodDelete, "kv_delete_entry", remove)
}

// feed describes the stream of all changes of the key-value store.
func (t *typeDocument) feed() {
	shape := shaper{d: t.document, typ: t.b.Type}
	o := operation{
		summary: "Follows the changes of entries, in scopes with log in their policy: brings those after a position, and then each as it happens.",
		parameters: []any{
			query("prefix",
				"A prefix to follow, as a JSON array, up to 16 times. Absent means all.", object{"type": "array", "items": object{"type": "string"}}),
			parameter("After"), parameter("LastEventID"),
		},
		success: serverSentEvents("Server-sent events: change with the position as its id, reset if some are no longer kept, cairn.bye with an error as the last.",
			object{"change": shape.of(typeOf[kv.Event]()), "reset": shape.of(typeOf[kv.Gap]())}),
		errors: callStatuses(),
	}
	if method.KVFeed.Row.By(t.b.Open()) == method.Operators {
		o.description = "For operators."
	}
	t.add("kv-feed", http.MethodGet, "kv_feed", o)
}

// builtins describes the built-in methods that apply to the type.
func (t *typeDocument) builtins() {
	for _, m := range method.All() {
		f, applies := t.family(m.Subject)
		if !applies {
			continue
		}
		in := shaper{d: t.document, typ: t.b.Type, family: f, input: true}
		out := shaper{d: t.document, typ: t.b.Type, family: f}
		var input, output any
		if m.Input != nil {
			input = in.of(m.Input)
		}
		if m.Output != nil {
			output = out.of(m.Output)
		}
		o := operation{summary: m.Summary}
		if m.By(t.b.Open()) == method.Operators {
			o.description = "For operators."
			if m.Kind == host.Action {
				o.parameters = []any{parameter("Reason")}
			}
		}
		t.call(m.Name, m.Kind == host.Action, input, output, o)
	}
}

// family reports whether the type has the subject of a method. It returns the family whose values
// the method's input and output hold.
func (t *typeDocument) family(about method.Subject) (*family, bool) {
	var f *family
	switch about {
	case method.Actor:
		return nil, true
	case method.Alarms:
		return nil, len(t.b.Alarms) > 0
	case method.Runs:
		return nil, t.workflows != nil
	case method.Queues:
		f = t.queues
	case method.WorkerQueues:
		f = t.workers
	case method.Schedules:
		f = t.schedules
	case method.Streams:
		f = t.streams
	case method.ExternalStreams:
		f = t.external
	case method.Workflows:
		f = t.workflows
	}
	return f, f != nil
}
