// Package client calls the actors of a node somewhere else, over HTTP.
//
// A [Client] is a host.Node, a host.EventSource, a host.Connector, a host.Inspector and a
// host.Databases. So references, subscriptions, connections and tools use it like a runtime in the
// same process, and errors are the same *host.Error with the same codes. A [Stream] follows events,
// a [Connection] is a client that an actor knows; both survive the loss of their connections.
//
//	c, err := client.New("https://node.example.com", client.Options{Token: token})
//	note, err := tenants.Add.Call(ctx, tenants.Tenants.Ref(c, "acme"), tenants.Note{Body: "renew"})
//
// What is different from a runtime in the same process: a network can fail, so the client retries
// (see [Client]); an idempotency key must be printable ASCII, because it travels in a header; keys
// must be valid UTF-8, because they travel in paths; and calls from inside a turn through a client
// are not part of the node's search for cycles.
//
// The package depends on package host, the standard library and a WebSocket library. A program that
// imports it links no database.
package client
