// Command cairn is the daemon and the tool of Cairn: it serves a node that needs no Go code, calls
// actors, and looks inside them.
//
// A [cli] is one run of the command with its streams and settings. An address is an actor's type
// and key on the command line, TYPE/PART/PART, percent-escaped as in a URL. Commands use a running
// node over HTTP, or the directory of a stopped one, read-only.
//
// Results go to standard output and everything else to standard error. The exit status is 0 when
// the command did what it was asked, 1 when the node answered with an error or could not be
// reached, and 2 when the command line is wrong.
package main
