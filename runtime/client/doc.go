// Package client calls the actors of a node somewhere else, over HTTP.
//
// A [Client] is a host.Node, a host.EventSource and a host.Inspector, so references, subscriptions and tools work with
// it as they do with a runtime in the same process, and errors are the same *host.Error with the same codes.
//
//	c, err := client.New("https://node.example.com", client.Options{Token: token})
//	note, err := tenants.Add.Call(ctx, tenants.Tenants.Ref(c, "acme"), tenants.Note{Body: "renew"})
//
// What is different from a runtime in the same process: a network can fail, so the client retries (see [Client]); an
// idempotency key must be printable ASCII, because it travels in a header; keys must be valid UTF-8, because they travel
// in paths; and calls from inside a turn through a client are not part of the node's search for cycles.
//
// The package depends on package host and the standard library alone. A program that imports it links no database.
package client
