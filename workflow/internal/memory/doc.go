// Package memory runs workflows in memory, for tests: a host of several actors, whose rows, queues
// and state are changed in one transaction at a time.
package memory
