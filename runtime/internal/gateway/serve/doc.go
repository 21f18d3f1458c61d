// Package serve is what every gateway over HTTP needs, whatever protocol it speaks to its clients.
// It knows no path, no node and no gateway.
//
// The nouns: a [Front] is what the gateways of a node share: limits, memory, metrics, and the
// register of open responses. A [Door] decides which requests may reach a node at all, and the hook
// Authorize of the [Options] decides on each operation. An [Exchange] is one request and its
// response. A [Stay] is a client with a response that lasts. A [Writer] writes such a response, and
// a [Socket] is the connection under a WebSocket. A [Line] keeps the requests of one WebSocket in
// order.
package serve
