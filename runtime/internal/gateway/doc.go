// Package gateway serves the actors of a node over HTTP.
//
// The nouns: a [Gateway] is an http.Handler in front of a node. A target is what a path names: a route, an actor and a
// method, queue or stream. An exchange is one request and its response. A stream is a client that stays: a subscriber, a
// worker that listens, a reader that follows, a connection. Most are served as server-sent events. A session is a
// connection over a WebSocket, and a socket is what lies under it. A fault is a host.Error on its way out, with the HTTP
// status or close code that belongs to its code.
//
// Between a request and the node stand, in this order: the check of the Host header (when nothing else protects the
// node), the bearer token, the check of the Origin, the path, the HTTP method, the Authorize hook, and only then the
// body. So nothing is read from, and nothing is done for, a caller who may not ask.
//
// docs/http.md and docs/websocket.md describe the protocols for those who use them.
package gateway
