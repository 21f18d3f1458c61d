// Package serve is what every gateway over HTTP needs, whatever protocol it speaks to its clients. It knows no path, no node
// and no gateway.
package serve
