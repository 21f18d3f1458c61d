// Package client calls the actors of a remote node, over HTTP.
//
// A [Client] is a host.Node, a host.EventSource, a host.Connector, a host.Inspector and a
// host.Databases. So references, subscriptions, connections and tools use it like a runtime in the
// same process. Errors are the same *host.Error with the same codes. A [Stream] follows events; a
// [Connection] belongs to one actor, which can send to it. Both survive the loss of their sockets.
//
//	c, err := client.New("https://node.example.com", client.Options{Token: token})
//	note, err := tenants.Add.Call(ctx, tenants.Tenants.Ref(c, "acme"), tenants.Note{Body: "renew"})
//
// A client differs from a runtime in the same process in these ways. It retries, because a network
// can fail; see [Client]. An idempotency key must be printable ASCII, because it is sent in a
// header. Keys must be valid UTF-8, because they are sent in paths. The node does not detect cycles
// of calls that a turn makes through a client.
//
// The package depends on package host, the standard library and a WebSocket library. A program that
// imports it links no database.
package client
