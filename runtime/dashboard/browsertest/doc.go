// Package browsertest has the tests of the dashboard in a browser. It is a module of its own, so
// that programs that use Cairn do not get the packages that drive Chromium.
package browsertest
