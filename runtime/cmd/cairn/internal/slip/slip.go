// Package slip finds the name that was likely meant by one that is slightly wrong.
package slip

import "strings"

// Nearest returns the candidate that is most like word, if one is near enough to have been meant.
func Nearest(word string, candidates []string) (string, bool) {
	best, bestDistance := "", len(word)/3+2
	for _, candidate := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best, best != ""
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into
// b.
func distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	before, last, row := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range last {
		last[j] = j
	}
	for i := range ra {
		row[0] = i + 1
		for j := range rb {
			cost := 1
			if ra[i] == rb[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && ra[i] == rb[j-1] && ra[i-1] == rb[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(rb)]
}
