//go:build !race

package sqlitevfs

// RaceDetector says that the tests run some 20 times slower, because SQLite is Go code here.
const RaceDetector = false
