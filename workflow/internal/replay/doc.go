// Package replay runs workflow functions over a journal. It is the implementation of packages
// workflow and workflow/host, and the comments that users read are there.
package replay
