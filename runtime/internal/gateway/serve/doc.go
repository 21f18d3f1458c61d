// Package serve has the shared parts of all gateways over HTTP, regardless of their protocol. It
// depends on no path, no node and no gateway.
//
// A [Front] holds the limits, memory, metrics and open responses that the gateways of a node share.
// A [Door] decides which requests may reach a node at all, and the hook Authorize of the [Options]
// decides on each operation. An [Exchange] is one request and its response. A [Stay] is a client
// with a lasting response. A [Writer] writes such a response, and a [Socket] is the connection
// under a WebSocket. A [Line] keeps the requests of one WebSocket in order.
package serve
