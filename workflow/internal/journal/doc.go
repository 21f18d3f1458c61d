// Package journal encodes and decodes the rows of a run: their keys, names, entries and large
// values. It runs nothing.
package journal
