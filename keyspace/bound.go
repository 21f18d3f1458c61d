package keyspace

import "bytes"

// Successor returns the smallest key greater than every key that begins with prefix: the last byte
// that is not FF is incremented and the bytes after it are cut. It returns nil if there is none
// (prefix is empty or all FF). As the end of a range, nil means: to the very end.
//
// The seemingly simpler prefix+FF is wrong: it misses every key that continues with a byte FF.
func Successor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

// TupleEnd returns the exclusive end of the range that begins at prefix and holds every key whose
// tuple begins with the elements of prefix, that exact tuple included. prefix must end where an
// element ends (or be all elements of a nested tuple so far).
//
// Here prefix+FF is right: no element begins with FF, and an FF after the prefix means that its
// last string continues with a 00 byte, so it is another element.
func TupleEnd(prefix []byte) []byte {
	end := make([]byte, len(prefix)+1)
	copy(end, prefix)
	end[len(prefix)] = 0xFF
	return end
}
