// Package localnats runs a NATS server inside the process.
//
// The nouns: [Options] say what the server offers, [Start] gives a running [Server],
// [Server.Connect] a connection to it that needs no port. A server opens a port only if
// Options.Listen names one, and a port that other machines can reach only together with
// credentials.
//
// The server never installs signal handlers, never ends the process and logs only to the logger
// that it is given.
package localnats
