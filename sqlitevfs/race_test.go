//go:build race

package sqlitevfs

// RaceDetector says that the tests run some 20 times slower, SQLite being Go code.
const RaceDetector = true
