// Package browsertest has the tests of the dashboard in a browser. It is its own module, so
// programs that use Cairn do not get the packages that drive Chromium.
package browsertest
