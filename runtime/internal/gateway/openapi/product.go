package openapi

import "net/http"

// A product is one whose interface actors have. Its document is its own; one route stands for all.
type product struct {
	path, verb, summary string
	answer              object
}

var products = []product{
	{
		path: "kvstore/instances", verb: "codebolt",
		summary: "Lists the instances of the key-value store as Codebolt sees it. The other routes are those of its REST interface.",
		answer: object{"type": "array", "items": object{"type": "object", "properties": object{
			"id": object{"type": "string"}, "name": object{"type": "string"}, "description": object{"type": "string"},
			"recordCount": object{"type": "integer"}, "namespaces": object{"type": "array", "items": object{"type": "string"}},
			"createdAt": object{}, "updatedAt": object{},
		}}},
	},
	{
		path: "keyval/api/keys", verb: "keyval",
		summary: "Lists entries of the key-value store as KeyVal shows them. The other routes are those of its REST interface.",
		answer: object{"type": "array", "items": object{"type": "object", "properties": object{
			"key": object{"type": "array", "items": object{}}, "value": object{}, "versionstamp": object{"type": []string{"string", "null"}},
		}}},
	},
}

// otherProducts describes the interfaces of other products.
func (t *typeDocument) otherProducts() {
	who := "For operators."
	if t.b.OpenKV {
		who = "For all callers."
	}
	failure := object{"type": "object", "properties": object{"error": object{"type": "string"}}, "required": []string{"error"}}
	for _, p := range products {
		t.add(p.path, http.MethodGet, p.verb, operation{
			summary: p.summary, description: who,
			success: object{
				"200":     object{"description": "The answer.", "content": inJSON(p.answer)},
				"default": object{"description": "Why not.", "content": inJSON(failure)},
			},
			errors: []int{},
		})
	}
}
