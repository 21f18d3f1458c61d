package sqlitevfs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// A patch is the difference between a page and its stored form.
//
//  1. An inserted row changes some two hundred bytes of a page. Patches are in the value of the
//     metadata, which every commit puts anyway. So a small commit puts one short value and no page.
//  2. A patch always leads from the stored page to the present one. A page has at most one patch,
//     and a new patch replaces the old one. So the metadata and the pages of one snapshot are the
//     whole database.
//  3. Every commit writes all patches again. When the patches of a page have cost as much as the
//     page, the page is stored again and its patch is removed. The next changes are unknown, and
//     this rule costs at most twice the best choice.
type patch struct {
	page uint32
	runs []byte // see appendRuns
	paid int    // bytes written for it so far
}

const (
	word      = 8                // unit of runs, in bytes
	stride    = 16 * word        // unit of comparison
	pageWords = PageSize / word  // of a page
	runHeader = 2 + 2            // the first word of a run, and its length in words
	patchHead = 4 + 2            // the page, and the length of its runs in bytes
	minRuns   = runHeader + word // the length of the shortest runs
	// maxPatches bounds the patches of one database together, in bytes.
	maxPatches = 2 << 10
)

// size returns the length of the encoded patch, in bytes.
func (p *patch) size() int { return patchHead + len(p.runs) }

// append appends the encoded patch: page, u32; length of the runs, u16; the runs. Numbers are
// big-endian.
func (p *patch) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.page)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.runs)))
	return append(dst, p.runs...)
}

// apply turns the stored page b into the present one.
func (p *patch) apply(b []byte) {
	for runs := p.runs; len(runs) > 0; {
		at, n := int(binary.BigEndian.Uint16(runs))*word, int(binary.BigEndian.Uint16(runs[2:]))*word
		copy(b[at:at+n], runs[runHeader:])
		runs = runs[runHeader+n:]
	}
}

// appendRuns appends the differences of two pages as runs of words of eight bytes. A run is its
// first word, u16, its length in words, u16, and its bytes. appendRuns returns false if the runs
// take more than limit bytes.
func appendRuns(dst []byte, stored, now *page, limit int) ([]byte, bool) {
	begin := len(dst)
	for at := 0; at < PageSize; {
		if at%stride == 0 && bytes.Equal(stored[at:at+stride], now[at:at+stride]) {
			at += stride
			continue
		}
		if binary.LittleEndian.Uint64(stored[at:]) == binary.LittleEndian.Uint64(now[at:]) {
			at += word
			continue
		}
		end := at + word
		for end < PageSize && binary.LittleEndian.Uint64(stored[end:]) != binary.LittleEndian.Uint64(now[end:]) {
			end += word
		}
		if len(dst)-begin+runHeader+end-at > limit {
			return dst[:begin], false
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(at/word))
		dst = binary.BigEndian.AppendUint16(dst, uint16((end-at)/word))
		dst = append(dst, now[at:end]...)
		at = end
	}
	return dst, true
}

// checkRuns returns the fault of runs, which must be in order, not touch, and end within the page.
func checkRuns(runs []byte) error {
	for next := 0; len(runs) > 0; {
		if len(runs) < minRuns {
			return fmt.Errorf("a run has %d bytes, want %d or more", len(runs), minRuns)
		}
		at, n := int(binary.BigEndian.Uint16(runs)), int(binary.BigEndian.Uint16(runs[2:]))
		runs = runs[runHeader:]
		switch {
		case n == 0 || at < next || at+n > pageWords:
			return fmt.Errorf("a run of %d words at word %d", n, at)
		case n*word > len(runs):
			return fmt.Errorf("a run of %d words has %d bytes", n, len(runs))
		}
		runs, next = runs[n*word:], at+n+1
	}
	return nil
}

// patches are the patches of a database, in the order of their pages.
type patches []patch

// parsePatches appends the encoded patches of a database of so many pages to list, which is empty.
// They refer to b. The error wraps [ErrCorrupt].
func parsePatches(list patches, b []byte, pages uint32) (patches, error) {
	for len(b) > 0 {
		if len(b) < patchHead+minRuns {
			return list, fmt.Errorf("%w: a patch has %d bytes", ErrCorrupt, len(b))
		}
		p := patch{page: binary.BigEndian.Uint32(b)}
		n := int(binary.BigEndian.Uint16(b[4:]))
		b = b[patchHead:]
		switch {
		case n < minRuns || n > len(b):
			return list, fmt.Errorf("%w: the patch of page %d has %d bytes of %d", ErrCorrupt, p.page, len(b), n)
		case p.page >= pages:
			return list,
				fmt.Errorf("%w: there is a patch of page %d, and there are %d pages", ErrCorrupt, p.page, pages)
		case len(list) > 0 && p.page <= list[len(list)-1].page:
			return list,
				fmt.Errorf("%w: the patch of page %d is after that of page %d", ErrCorrupt, p.page,
					list[len(list)-1].page)
		}
		p.runs, b = b[:n:n], b[n:]
		if err := checkRuns(p.runs); err != nil {
			return list, fmt.Errorf("%w: in the patch of page %d there is %w", ErrCorrupt, p.page, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// append appends the encoded patches.
func (l patches) append(dst []byte) []byte {
	for i := range l {
		dst = l[i].append(dst)
	}
	return dst
}

// size returns how many bytes the patches take.
func (l patches) size() (n int) {
	for i := range l {
		n += l[i].size()
	}
	return n
}

func (l patches) find(n uint32) (int, bool) {
	return slices.BinarySearchFunc(l, n, func(p patch, n uint32) int { return cmp.Compare(p.page, n) })
}

// apply turns the stored bytes b of page n into the present ones.
func (l patches) apply(n uint32, b []byte) {
	if len(l) == 0 {
		return
	}
	if i, ok := l.find(n); ok {
		l[i].apply(b)
	}
}

// remove removes the patch of a page, if it has one. The memory of its runs stays beyond the end of
// the list, for set.
func (l *patches) remove(n uint32) {
	i, ok := l.find(n)
	if !ok {
		return
	}
	last, runs := len(*l)-1, (*l)[i].runs
	copy((*l)[i:], (*l)[i+1:])
	(*l)[last] = patch{runs: runs[:0]}
	*l = (*l)[:last]
}

// cut removes the patches of pages from n on.
func (l *patches) cut(n uint32) {
	i, _ := l.find(n)
	clear((*l)[i:])
	*l = (*l)[:i]
}

// set sets the patch of a page to a copy of runs.
func (l *patches) set(n uint32, runs []byte) {
	i, ok := l.find(n)
	if !ok {
		end := len(*l)
		*l = slices.Grow(*l, 1)[:end+1]
		buffer := (*l)[end].runs
		copy((*l)[i+1:], (*l)[i:end])
		(*l)[i] = patch{page: n, runs: buffer}
	}
	p := &(*l)[i]
	p.runs = append(p.runs[:0], runs...)
}

// keptImages is the number of pages whose stored form a write session remembers: the pages stored
// or changed last. A table has one growing page, and so has each of its indexes in the order of
// insertion.
const keptImages = 4

// stored are pages as stored, without their patches; the last used one is first.
type stored [keptImages]storedPage

type storedPage struct {
	n uint32
	b *page // nil: none
}

// find returns page n, or nil.
func (s *stored) find(n uint32) *page {
	for i := range s {
		if at := s[i]; at.b != nil && at.n == n {
			copy(s[1:i+1], s[:i])
			s[0] = at
			return at.b
		}
	}
	return nil
}

// add adds b as page n, and returns the page that it replaces, or nil.
func (s *stored) add(n uint32, b *page) (gone *page) {
	i := slices.IndexFunc(s[:], func(at storedPage) bool { return at.b != nil && at.n == n })
	if i < 0 {
		i = slices.IndexFunc(s[:], func(at storedPage) bool { return at.b == nil })
	}
	if i < 0 {
		i = keptImages - 1
	}
	gone = s[i].b
	copy(s[1:i+1], s[:i])
	s[0].n, s[0].b = n, b
	return gone
}

// remove removes the pages with from <= n < to.
func (s *stored) remove(from, to uint32, buffers *buffers) {
	for i := range s {
		if at := &s[i]; at.b != nil && at.n >= from && at.n < to {
			buffers.putPage(at.b)
			at.b = nil
		}
	}
}
