// Package guides holds the tests of the guides beside it: every Go snippet of a page stands in the
// test file of the same name, where it is compiled and run.
package guides
