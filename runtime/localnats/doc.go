// Package localnats runs a NATS server inside the process.
//
// [Start] runs a [Server] with [Options], and [Server.Connect] opens a connection to it that needs
// no port. A server opens a port only if Options.Listen names one. A port that other machines can
// reach requires credentials.
//
// The server never installs signal handlers, never ends the process, and logs only to
// Options.Logger.
package localnats
