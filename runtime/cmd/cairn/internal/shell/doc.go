// Package shell is an interactive shell for SQL. It cuts text into statements, runs them on a
// [Database] and prints the rows; at a terminal it edits lines, completes names and keeps a
// history. It knows neither nodes nor actors.
package shell
