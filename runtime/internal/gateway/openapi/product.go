package openapi

import "net/http"

// A product is another product whose interface actors have. One route stands for its document.
type product struct {
	path, verb, summary string
	answer              object // nil for a WebSocket that continues after a position
	body                object // of a POST; nil for a GET
	fault               object // nil for a text
}

var products = []product{
	{
		path: "kvstore/instances", verb: "codebolt",
		summary: "Lists the instances of the key-value store as Codebolt sees it. The other routes are those of its REST interface.",
		answer: object{"type": "array", "items": object{"type": "object", "properties": object{
			"id": object{"type": "string"}, "name": object{"type": "string"}, "description": object{"type": "string"},
			"recordCount": object{"type": "integer"}, "namespaces": object{"type": "array",
				"items": object{"type": "string"}},
			"createdAt": object{}, "updatedAt": object{},
		}}},
	},
	{
		path: "kvstore/ws", verb: "codebolt_events",
		summary: "Follows the changes of instances and records as events of Codebolt.",
	},
	{
		path: "keyval/api/keys", verb: "keyval",
		summary: "Lists entries of the key-value store as KeyVal shows them. The other routes are those of its REST interface.",
		answer: object{"type": "array", "items": object{"type": "object", "properties": object{
			"key": object{"type": "array",
				"items": object{}}, "value": object{}, "versionstamp": object{"type": []string{"string", "null"}},
		}}},
	},
	{
		path: "strata/execute", verb: "strata",
		summary: "Does a command of Strata on the key-value store.",
		answer:  object{"type": "object", "minProperties": 1},
		body: object{"type": "object", "properties": object{
			"session": object{"type": "string", "maxLength": 255},
			"command": object{"description": "The name of a command, or an object with it and its members."},
		}, "required": []string{"command"}, "additionalProperties": false},
		fault: object{"type": "object", "properties": object{
			"name": object{"type": "string"}, "message": object{"type": "string"}, "earliest": object{"type": "string"},
		}, "required": []string{"name", "message"}},
	},
}

// otherProducts describes the interfaces of other products.
func (t *typeDocument) otherProducts() {
	who := "For operators."
	if t.b.OpenKV {
		who = "For all callers."
	}
	for _, p := range products {
		fault, method := object{"type": "string"}, http.MethodGet
		if p.fault != nil {
			fault = p.fault
		}
		failure := object{"type": "object", "properties": object{"error": fault}, "required": []string{"error"}}
		o := operation{
			summary: p.summary, description: who,
			success: object{"default": object{"description": "Why not.", "content": inJSON(failure)}},
			errors:  []int{},
		}
		if p.answer != nil {
			o.success["200"] = object{"description": "The answer.", "content": inJSON(p.answer)}
		} else {
			o.success["101"] = object{"description": "A WebSocket with the subprotocol cairn.v1, if the client offers it."}
			o.parameters = []any{parameter("After"), parameter("LastEventID")}
		}
		if p.body != nil {
			method, o.body = http.MethodPost, body(p.body, true)
		}
		t.add(p.path, method, p.verb, o)
	}
}
