// Package gateway serves the actors of a node over HTTP.
//
// Terms: a [Gateway] is an http.Handler in front of a node. A target is a parsed path: a route, an
// actor and a method, queue or stream. An exchange is one request and its response. A stream is a
// client that stays: a subscriber, a worker that listens, a reader that follows, a connection. Most
// are served as server-sent events. A session is a connection over a WebSocket, and a socket is the
// WebSocket itself. A fault is a host.Error for the client, with the HTTP status or close code of
// its code.
//
// A request passes these checks, in this order: the Host header (if nothing else protects the
// node), the bearer token, the Origin, the path, the HTTP method, and the Authorize hook. The body
// is read last. So the gateway reads and does nothing for a caller without permission.
//
// docs/http.md and docs/websocket.md describe the protocols for clients.
package gateway
