// Package gateway serves the actors of a node over HTTP.
//
// The nouns: a [Gateway] is an http.Handler in front of a node. A target is what a path names: a route, an actor and a
// method. An exchange is one request and its response. A stream is one subscriber to the events of an actor, served as
// server-sent events. A fault is a host.Error on its way out, with the HTTP status that belongs to its code.
//
// Between a request and the node stand, in this order: the check of the Host header (when nothing else protects the
// node), the check of the Origin, the path, the HTTP method, the bearer token, the Authorize hook, and only then the
// body. So nothing is read from, and nothing is done for, a caller who may not ask.
//
// docs/http.md describes the protocol for those who call it.
package gateway
