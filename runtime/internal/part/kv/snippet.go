package kv

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host/kv"
)

// maxWord bounds the characters of a snippet's text that count as one word, because not every
// language has blanks.
const maxWord = 32

// An extent is a part of a text.
type extent struct{ start, end int }

// unmark returns a text without its marks, and the extents between them.
func unmark(marked string) (string, []extent) {
	var b strings.Builder
	var matches []extent
	for marked != "" {
		text, rest, found := strings.Cut(marked, matchOpen)
		b.WriteString(text)
		if !found {
			break
		}
		text, marked, _ = strings.Cut(rest, matchClose)
		if text != "" {
			matches = append(matches, extent{b.Len(), b.Len() + len(text)})
		}
		b.WriteString(text)
	}
	return b.String(), matches
}

// wordsOf returns the words of a text.
func wordsOf(text string) (words []extent) {
	for at, length := 0, 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Co):
			length = 0
		case length == 0 || length == maxWord:
			words, length = append(words, extent{at, at + size}), 1
		default:
			words[len(words)-1].end, length = at+size, length+1
		}
		at += size
	}
	return words
}

// A hit is a word that overlaps a match.
type hit struct {
	word int
	text string
}

// excerpt returns so many words of a text with marks around matches, in pieces. The score grows
// with the different words that match, and then with the words that match; it is 0 if none does.
// The time grows with the text alone.
func excerpt(marked string, most int) (parts []kv.SnippetPart, score int) {
	text, matches := unmark(marked)
	words := wordsOf(text)
	var hits []hit
	for i, m := 0, 0; i < len(words) && m < len(matches); i++ {
		for m < len(matches) && matches[m].end <= words[i].start {
			m++
		}
		if m < len(matches) && matches[m].start < words[i].end {
			hits = append(hits, hit{i, strings.ToLower(text[words[i].start:words[i].end])})
		}
	}
	var first, last int // words
	seen := make(map[string]int)
	for i, j := 0, 0; i < len(hits); i++ {
		for ; j < len(hits) && hits[j].word < hits[i].word+most; j++ {
			seen[hits[j].text]++
		}
		if s := len(seen)*1_000 + j - i; s > score {
			score, first, last = s, hits[i].word, hits[j-1].word
		}
		if seen[hits[i].text]--; seen[hits[i].text] == 0 {
			delete(seen, hits[i].text)
		}
	}
	if score == 0 {
		return nil, 0
	}
	start := max(min(first-(most-(last-first+1))/2, len(words)-most), 0)
	end := min(start+most, len(words))
	shown, before, after := extent{0, len(text)}, "", ""
	if start > 0 {
		shown.start, before = words[start].start, "…"
	}
	if end < len(words) {
		shown.end, after = words[end-1].end, "…"
	}
	at := shown.start
	for _, m := range matches {
		m = extent{max(m.start, shown.start), min(m.end, shown.end)}
		if m.start >= m.end {
			continue
		}
		if s := before + text[at:m.start]; s != "" {
			parts = append(parts, kv.SnippetPart{Text: s})
		}
		parts = append(parts, kv.SnippetPart{Text: text[m.start:m.end], Match: true})
		before, at = "", m.end
	}
	if s := before + text[at:shown.end] + after; s != "" {
		parts = append(parts, kv.SnippetPart{Text: s})
	}
	return parts, score
}
