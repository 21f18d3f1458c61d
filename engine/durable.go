package engine

import (
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// markName is the file in the store's directory that says how much of its logs and manifests is
// synced.
const markName = "durable-mark"

// durableMark keeps the high-water marks of the logs and manifests: how much of each was synced.
//
// A log may end anywhere, because a power cut tears its end. So a log that was cut, emptied or
// removed by hand, or damaged near its end, looks whole. The mark shows the difference. Its claims:
//
//  1. It never claims more than is synced: it is written after the sync of the file returned.
//  2. It costs no sync. The mark in the page cache covers all acknowledged commits when the process
//     ends, regardless of how. After a power cut the mark may be older, torn or gone; then it says
//     less, but nothing wrong.
//  3. Its own errors are ignored: without a mark, less damage is found.
type durableMark struct {
	mu      sync.Mutex
	file    vfs.File // nil: marks are not kept on disk
	entries []markEntry
	newest  [tableFile]atomic.Pointer[markEntry] // by kind, the file that was synced last; an entry is never changed
	secret  markSecret
	page    [markSize]byte // the bytes to write
}

// markSecret is a random value in the marks of a process's commits. A stored value may hold the
// bytes of a commit with a mark, which looks like one after a torn write. It cannot hold the
// secret, which never leaves the store.
type markSecret [8]byte

// markEntry says that a file was synced up to an offset.
type markEntry struct {
	kind   fileKind
	num    uint64
	synced int64
}

type fileKind byte

const (
	otherFile fileKind = iota
	logFile
	manifestFile
	tableFile
)

// Bytes of the mark: magic, checksum of the rest, secret, count, entries. It has the size of a
// sector, which disks write as a whole.
const (
	markMagic     = "cairnmk1"
	markSize      = 512
	markHeader    = len(markMagic) + 4 + len(markSecret{}) + 1
	markEntrySize = 1 + 8 + 8
	maxMarks      = (markSize - markHeader) / markEntrySize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kindOf returns the kind of a file of the store, and its number.
func kindOf(name string) (fileKind, uint64) {
	if n, index, ok := wal.ParseLogFilename(name); ok && index == 0 {
		return logFile, uint64(n)
	}
	if digits, ok := strings.CutPrefix(name, "MANIFEST-"); ok {
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			return manifestFile, n
		}
	}
	if isTable(name) {
		return tableFile, 0
	}
	return otherFile, 0
}

// readMarks returns the entries and the secret of the mark in a directory: none if it has no mark,
// or the mark is not whole.
func readMarks(fs vfs.FS, path string) (entries []markEntry, secret markSecret) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, secret
	}
	defer f.Close()
	b := make([]byte, markSize)
	if _, err := io.ReadFull(f, b); err != nil || string(b[:len(markMagic)]) != markMagic {
		return nil, secret
	}
	body := b[len(markMagic)+4:]
	count := int(body[len(secret)])
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(markMagic):]) || count > maxMarks {
		return nil, secret
	}
	copy(secret[:], body)
	entries = make([]markEntry, count)
	for i := range entries {
		e := body[len(secret)+1+i*markEntrySize:]
		entries[i] = markEntry{fileKind(e[0]), binary.LittleEndian.Uint64(e[1:]),
			int64(binary.LittleEndian.Uint64(e[9:]))}
	}
	return entries, secret
}

// start begins to keep marks in memory, with the valid entries of earlier processes.
func (m *durableMark) start(entries []markEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = rand.Read(m.secret[:]) // it does not fail
	m.entries = entries
}

// keep begins to write the marks to a file. Until then the file has the marks of an earlier
// process: fewer, but true.
func (m *durableMark) keep(fs vfs.FS, path string) {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		if f, err = fs.Create(path, vfs.WriteCategoryUnspecified); err != nil {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file = f
	m.write()
}

// synced records that a file is durable up to an offset.
func (m *durableMark) synced(kind fileKind, num uint64, offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := markEntry{kind, num, offset}
	m.newest[kind].Store(&e)
	for i := range m.entries {
		if old := &m.entries[i]; old.kind == kind && old.num == num {
			if old.synced != offset {
				*old = e
				m.write()
			}
			return
		}
	}
	if len(m.entries) == maxMarks {
		m.entries = append(m.entries[:0], m.entries[1:]...)
	}
	m.entries = append(m.entries, e)
	m.write()
}

// forget removes the entry of a file that is no longer needed.
func (m *durableMark) forget(name string) {
	kind, num := kindOf(name)
	if kind != logFile && kind != manifestFile {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range m.entries {
		if e.kind == kind && e.num == num {
			m.entries = append(m.entries[:i], m.entries[i+1:]...)
			return
		}
	}
}

// write writes the marks, if they are kept in a file. REQUIRES: mu.
func (m *durableMark) write() {
	if m.file == nil {
		return
	}
	clear(m.page[:])
	b := m.page[:len(markMagic)+4]
	copy(b, markMagic)
	b = append(b, m.secret[:]...)
	b = append(b, byte(len(m.entries)))
	for _, e := range m.entries {
		b = append(b, byte(e.kind))
		b = binary.LittleEndian.AppendUint64(b, e.num)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.synced))
	}
	b = b[:markSize]
	binary.LittleEndian.PutUint32(b[len(markMagic):], crc32.Checksum(b[len(markMagic)+4:], castagnoli))
	_, _ = m.file.WriteAt(b, 0)
}

// stop closes the file of the marks.
func (m *durableMark) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
}

// markTag is the first byte of the log data that a commit carries: how much was synced when it was
// applied. So the log itself says, even after a power cut, that an earlier part of it and of the
// manifest was whole.
const markTag = 'm'

// commitMark is the mark in a commit.
type commitMark struct {
	secret        markSecret
	log, manifest markEntry // num is 0 if there is none
}

// maxCommitMark is the most that appendMark appends.
const maxCommitMark = 1 + len(markSecret{}) + 4*binary.MaxVarintLen64

// appendMark appends the log data of a commit, or nothing if no log was synced yet.
func (m *durableMark) appendMark(b []byte) []byte {
	log := m.newest[logFile].Load()
	if log == nil {
		return b
	}
	b = append(append(b, markTag), m.secret[:]...)
	for _, e := range []*markEntry{log, m.newest[manifestFile].Load()} {
		if e != nil {
			b = binary.AppendUvarint(binary.AppendUvarint(b, e.num), uint64(e.synced))
		}
	}
	return b
}

// parseMark decodes the bytes of appendMark.
func parseMark(b []byte) (m commitMark, ok bool) {
	if len(b) < 1+len(m.secret) || b[0] != markTag {
		return m, false
	}
	b = b[1+copy(m.secret[:], b[1:]):]
	if m.log, b = parseMarkEntry(logFile, b); m.log.num == 0 {
		return m, false
	}
	m.manifest, _ = parseMarkEntry(manifestFile, b)
	return m, true
}

func parseMarkEntry(kind fileKind, b []byte) (markEntry, []byte) {
	num, n := binary.Uvarint(b)
	if n <= 0 {
		return markEntry{}, nil
	}
	synced, size := binary.Uvarint(b[n:])
	if size <= 0 {
		return markEntry{}, nil
	}
	return markEntry{kind, num, int64(synced)}, b[n+size:]
}
