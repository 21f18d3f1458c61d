package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// survey is the result of checking the directory before Pebble opens it and changes files.
//
// Pebble treats unreadable bytes at the end of the newest log, or of the manifest, as the torn end
// that a power cut leaves, and a directory without a marker as empty. So it would drop acknowledged
// commits, or every table. The survey tells damage from a torn end by facts that no power cut can
// change:
//
//  1. Synced bytes are there. The mark beside the log says how many. So does each commit in it, as
//     of when the commit was applied. So a log is damaged if a whole commit after the damage says
//     that the damaged place was synced. Whole commits alone prove nothing: unsynced blocks reach
//     the disk in any order.
//  2. Sequence numbers have no gaps, within a log and from one to the next. The numbers are given
//     in the order of the log; only ingestion takes one without a record, and the engine never
//     ingests. This holds from the oldest log that the manifest needs: Open writes the replayed
//     commits to tables before it begins a new log. Pebble refuses a log if the beginning of a
//     later block says that an unreadable place was synced; so that is damage here, too.
//  3. A log is closed and synced before the next one is begun, so only the newest has a torn end.
//  4. The mark and each commit also say how far the manifest is synced. Bytes that look like whole
//     edits after a torn one prove nothing: an edit holds keys, which tenants choose.
//  5. The markers are made durable before anything but a first manifest.
type survey struct {
	damages  []*DamageError
	marks    []markEntry         // of files that the store still needs
	secrets  map[markSecret]bool // of the processes that wrote the mark and the commits that were read
	noMarker bool                // the manifest's marker is missing
	noFormat bool                // the format's marker is missing
	options  string              // name of a damaged file of options, which the store does not need
	manifest string              // name of the current manifest
	readable int64               // how much of the manifest can be read; -1 if no edit can
	claimed  int64               // how much of the manifest was synced, as far as is known
	logs     []uint64            // numbers of the logs that the manifest needs, in order
	cut      *logCut             // nil if the logs are whole
}

// logCut is where the part of the logs that can be trusted ends.
type logCut struct {
	num    uint64 // the log; it is kept up to offset, and later logs not at all
	offset int64
}

type surveyor struct {
	disk vfs.FS
	dir  string
	*survey
}

// surveyDirectory checks the files of a store that is not open, and changes nothing. The error is
// one of the disk, or ErrFormat if a later version of Pebble wrote the files.
func surveyDirectory(disk vfs.FS, dir string) (*survey, error) {
	v := surveyor{disk, dir, &survey{secrets: make(map[markSecret]bool)}}
	names, err := disk.List(dir)
	if err != nil {
		return nil, err
	}
	if v.manifest, err = atomicfs.ReadMarker(disk, dir, "manifest"); err != nil {
		return nil, err
	}
	format, err := atomicfs.ReadMarker(disk, dir, "format-version")
	if err != nil {
		return nil, err
	}
	if n, err := strconv.ParseUint(format, 10, 64); err == nil && n > uint64(pebble.FormatNewest) {
		if i := slices.IndexFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "marker.format-version.") && strings.HasSuffix(name, "."+format)
		}); i >= 0 {
			return nil, fmt.Errorf("%w: %s, newest known is %d", ErrFormat, names[i], pebble.FormatNewest)
		}
	}
	opened, used := false, "" // whether Pebble opened it before; a file that proves that it was used
	options := ""
	for _, name := range names {
		kind, _ := kindOf(name)
		switch {
		case kind == tableFile, strings.HasPrefix(name, "OPTIONS-"):
			opened, used = true, name
			if kind != tableFile && (len(name) > len(options) || len(name) == len(options) && name > options) {
				options = name
			}
		case kind == logFile, strings.HasPrefix(name, "marker.format-version."):
			used = name
		}
	}
	if v.manifest == "" {
		if used == "" {
			return v.survey, nil // there is no store, or its creation was cut off
		}
		v.noMarker = true
		v.damaged("marker.manifest", -1,
			"the marker (an empty file, marker.manifest.*) is missing, but %s is there", used)
		if err := v.findManifest(names); err != nil {
			return nil, err
		}
	}
	if format == "" && opened {
		v.noFormat = true
		v.damaged("marker.format-version", -1,
			"the marker (an empty file, marker.format-version.*) is missing, but %s is there", used)
	}
	if options != "" {
		if err := v.readOptions(options); err != nil {
			return nil, err
		}
	}
	var secret markSecret
	v.marks, secret = readMarks(disk, disk.PathJoin(dir, markName))
	v.secrets[secret] = len(v.marks) > 0
	needed, err := v.readManifest()
	if err != nil {
		return nil, err
	}
	_, current := kindOf(v.manifest)
	v.marks = slices.DeleteFunc(v.marks, func(e markEntry) bool {
		return e.kind == logFile && e.num < needed || e.kind == manifestFile && e.num != current
	})
	for _, name := range names {
		if kind, num := kindOf(name); kind == logFile && num >= needed {
			v.logs = append(v.logs, num)
		}
	}
	slices.Sort(v.logs)
	if err := v.readLogs(); err != nil {
		return nil, err
	}
	if v.readable < v.claimed {
		v.damaged(v.manifest, max(v.readable, 0),
			"it can be read up to here, and %d bytes of it were synced", v.claimed)
	}
	return v.survey, nil
}

func (v surveyor) damaged(file string, offset int64, format string, args ...any) {
	v.damages = append(v.damages, &DamageError{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)})
}

// err returns the damages as one error.
func (s *survey) err() error {
	errs := make([]error, len(s.damages))
	for i, d := range s.damages {
		errs[i] = d
	}
	return errors.Join(errs...)
}

// tableInError finds the number of a table in an error of Pebble's. A number in the middle of a
// path is a directory.
var tableInError = regexp.MustCompile(`(?:L\d+: |file |invalid table |/)(\d{6,})(?:[^/\d]|$)`)

// tableDamage returns the error for a table, with Pebble's text about it on one line.
func tableDamage(path string, said error) *DamageError {
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	return &DamageError{File: name, Offset: -1, Reason: strings.Join(strings.Fields(said.Error()), " "), cause: said}
}

// damaged names the table that an error of Pebble is about, if the table's content is wrong. It
// returns other errors, such as those of the disk, as they are.
func damaged(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrDamaged) {
		return err
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return tableDamage(info.Path, info.Details)
	}
	corrupt := pebble.IsCorruptionError(err)
	if !corrupt && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "object size mismatch") {
		return err
	}
	found := tableInError.FindStringSubmatch(err.Error())
	switch {
	case found == nil && corrupt:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case found == nil:
		return err
	}
	return tableDamage(found[1]+".sst", err)
}

// synced returns how much of a file is known to have been synced.
func (s *survey) synced(kind fileKind, num uint64) int64 {
	for _, e := range s.marks {
		if e.kind == kind && e.num == num {
			return e.synced
		}
	}
	return 0
}

// recordBlock is the size of the blocks that logs and manifests consist of. No record begins in the
// last bytes of one.
const recordBlock = 32 << 10

// roundUp moves an offset in the unused end of a block to the next one.
func roundUp(offset, header int64) int64 {
	if left := recordBlock - offset%recordBlock; left < header {
		return offset + left
	}
	return offset
}

// newRecordReader calls record.NewReader with a file number, whose type Pebble does not export.
func newRecordReader[N ~uint64](open func(io.Reader, N) *record.Reader, r io.Reader, num uint64) *record.Reader {
	return open(r, N(num))
}

// afterChunks returns the end of the chunks that hold the first payload bytes of a record. All but
// the last chunk of a record fill their block.
func afterChunks(offset, header, payload int64) int64 {
	for {
		offset = roundUp(offset, header)
		room := recordBlock - offset%recordBlock - header
		if payload < room {
			return offset + header + payload
		}
		offset += header + room
		if payload -= room; payload == 0 {
			return offset
		}
	}
}

// recordBegin is how much of a record is read: the beginning of a commit, or of an edit of the
// manifest.
const recordBegin = 256

// ending is how the records of a file end.
type ending int

const (
	unreadable ending = iota // by a torn write or by damage
	regular                  // with the file, or with the trailer of a closed log
	refuted                  // by damage: a later block of the log says that the place was synced
)

// readRecords calls each with the beginnings of the records of a file and their offsets. It returns
// where they end, and how. The slice is valid during the call.
//
// A sync may come when only part of a large record is written, so the synced bytes may end within a
// record. Reached is the end of the whole chunks of the incomplete record: end, if it has none.
func readRecords(f vfs.File, num uint64, each func(begin []byte, offset int64) (bool, error)) (end,
	reached int64, how ending, err error) {
	const manifestHeader, logHeader = 7, 19
	header := int64(logHeader)
	if num == 0 {
		header = manifestHeader
	}
	r := newRecordReader(record.NewReader, f, num)
	begin := make([]byte, recordBegin)
	for {
		end = roundUp(r.Offset(), header)
		reached = end
		next, err := r.Next()
		n := 0
		if err == nil {
			var rest int64
			if n, err = io.ReadFull(next, begin); err == nil {
				rest, err = io.Copy(io.Discard, next)
			} else if err == io.EOF || err == io.ErrUnexpectedEOF { // of the record, not of the file
				err = nil
			}
			reached = afterChunks(end, header, int64(n)+rest)
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return end, reached, regular, nil
		case errors.Is(err, record.ErrUnexpectedEOF):
			return end, reached, unreadable, nil
		case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk):
			return end, reached, refuted, nil
		default:
			return end, reached, unreadable, err
		}
		if more, err := each(begin[:n], end); err != nil || !more {
			return end, reached, unreadable, err
		}
	}
}

// readOptions checks the file of the options with which Pebble was last opened.
func (v surveyor) readOptions(name string) error {
	f, err := v.disk.Open(v.disk.PathJoin(v.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o := &pebble.Options{Comparer: newComparer(), Merger: newMerger()}
	o.EnsureDefaults()
	if err := o.CheckCompatibility(v.dir, string(text)); err != nil {
		v.options = name
		v.damaged(name, 0, "it cannot be used: %.80s", err)
	}
	return nil
}

// findManifest sets the manifest of a directory without its marker: the newest with an edit that
// can be read. A newer one was begun but not used: the marker moves when the first edits of a
// manifest are synced.
func (v surveyor) findManifest(names []string) error {
	var newest uint64
	for _, name := range names {
		kind, num := kindOf(name)
		if kind != manifestFile || num < newest {
			continue
		}
		f, err := v.disk.Open(v.disk.PathJoin(v.dir, name))
		if err != nil {
			return err
		}
		_, _, _, err = readRecords(f, 0, func([]byte, int64) (bool, error) {
			newest = num
			return false, nil
		})
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	v.manifest = fmt.Sprintf("MANIFEST-%06d", newest)
	return nil
}

// readManifest returns the number of the oldest log that the store needs.
func (v surveyor) readManifest() (needed uint64, err error) {
	_, num := kindOf(v.manifest)
	f, err := v.disk.Open(v.disk.PathJoin(v.dir, v.manifest))
	if errors.Is(err, fs.ErrNotExist) {
		v.damaged(v.manifest, -1, "the manifest is missing")
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	edits := 0
	end, _, _, err := readRecords(f, 0, func(edit []byte, _ int64) (bool, error) {
		edits++
		if n := oldestLog(edit); n != 0 {
			needed = n
		}
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("%s at byte %d: %w", v.manifest, end, err)
	}
	v.readable, v.claimed = end, v.synced(manifestFile, num)
	if edits == 0 {
		v.readable = -1
	}
	return needed, nil
}

// oldestLog returns the number of the oldest log needed that an edit of the manifest sets, or 0.
// The number is at the beginning of an edit, after the name of the comparer.
func oldestLog(edit []byte) uint64 {
	const comparer, logNumber = 1, 2
	tag, n := binary.Uvarint(edit)
	if n > 0 && tag == comparer {
		edit = edit[n:]
		size, n := binary.Uvarint(edit)
		if n <= 0 || size > uint64(len(edit)-n) {
			return 0
		}
		edit = edit[n+int(size):]
		tag, _ = binary.Uvarint(edit)
	}
	if tag != logNumber || len(edit) == 0 {
		return 0
	}
	num, n := binary.Uvarint(edit[1:])
	if n <= 0 {
		return 0
	}
	return num
}

// readLogs reads the logs up to the first damage.
func (v surveyor) readLogs() error {
	var next uint64 // sequence number of the next record; 0 if unknown
	last := uint64(0)
	for i, num := range v.logs {
		if lost := v.missing(last, num); lost != 0 {
			return v.lost(lost, last)
		}
		last = num
		if done, err := v.readLog(num, i == len(v.logs)-1, &next); done || err != nil {
			return err
		}
	}
	if lost := v.missing(last, 0); lost != 0 {
		return v.lost(lost, last)
	}
	return nil
}

// missing returns the number of the oldest log between two others that was synced but is missing,
// or 0.
func (s *survey) missing(after, before uint64) (lost uint64) {
	for _, e := range s.marks {
		if e.kind == logFile && e.num > after && (before == 0 || e.num < before) && (lost == 0 || e.num < lost) {
			lost = e.num
		}
	}
	return lost
}

func (v surveyor) lost(num, last uint64) error {
	v.damaged(logName(num), -1, "the log is missing; %d bytes of it were synced", v.synced(logFile, num))
	v.cut = &logCut{num: num}
	return nil
}

func logName(num uint64) string { return fmt.Sprintf("%06d.log", num) }

// readLog reads one log. It returns true if the log is damaged.
func (v surveyor) readLog(num uint64, newest bool, next *uint64) (damaged bool, err error) {
	name := logName(num)
	f, err := v.disk.Open(v.disk.PathJoin(v.dir, name), vfs.SequentialReadsOption)
	if err != nil {
		return false, err
	}
	defer f.Close()
	bad := func(offset int64, format string, args ...any) {
		damaged = true
		v.damaged(name, offset, format, args...)
		v.cut = &logCut{num, offset}
	}
	end, reached, how, err := readRecords(f, num, func(batch []byte, offset int64) (bool, error) {
		h, ok := batchrepr.ReadHeader(batch)
		switch {
		case !ok:
			bad(offset, "the record here is no commit")
		case h.Count == 0: // log data alone takes no number
		case *next != 0 && uint64(h.SeqNum) != *next:
			bad(offset, "commits are missing before this place: the next one is %d, and %d was expected", h.SeqNum, *next)
		default:
			*next = uint64(h.SeqNum) + uint64(h.Count)
		}
		if m, ok := batchMark(batch); ok && !damaged {
			v.secrets[m.secret] = true
			if _, current := kindOf(v.manifest); m.manifest.num == current {
				v.claimed = max(v.claimed, m.manifest.synced)
			}
		}
		return !damaged, nil
	})
	if err != nil {
		return false, fmt.Errorf("%s at byte %d: %w", name, end, err)
	}
	synced := v.synced(logFile, num)
	switch {
	case damaged:
	case how == regular && end+trailerSize >= synced:
	case how != regular && reached < synced, how == regular && end < synced:
		bad(end, "the log can be read up to here, and %d bytes of it were synced", synced)
	case how == regular:
	case how == refuted:
		bad(end, "what is here cannot be read, and a later block says that the log was synced beyond it")
	case !newest:
		bad(end, "what is here cannot be read, and there are later logs")
	default:
		var claimed int64
		after, err := findCommit(f, num, end, func(m commitMark) bool {
			claimed = m.log.synced
			return v.secrets[m.secret] && m.log.num == num && claimed > reached
		})
		if err != nil {
			return false, fmt.Errorf("%s at byte %d: %w", name, end, err)
		}
		if after >= 0 {
			bad(end, "what is here cannot be read, and the commit at byte %d says that the log was synced up to byte %d", after, claimed)
		}
	}
	return damaged, nil
}

// trailerSize is the size of the trailer of a closed log.
const trailerSize = 11

// batchMark returns the mark that a commit carries as its first record. It takes any bytes; package
// batchrepr panics on some that end early.
func batchMark(batch []byte) (commitMark, bool) {
	if len(batch) <= batchrepr.HeaderLen || batch[batchrepr.HeaderLen] != byte(pebble.InternalKeyKindLogData) {
		return commitMark{}, false
	}
	b := batch[batchrepr.HeaderLen+1:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return commitMark{}, false
	}
	return parseMark(b[n : n+int(size)])
}

// findCommit looks for the beginning of a commit after a damaged place in a log, and returns the
// offset of the first for which want is true, or -1.
//
// Nothing says where in a block a chunk begins: the lengths of earlier chunks may be damaged. So
// any byte may begin one, and a value may hold as many beginnings as fit. The checksum is checked
// last: want is true only for marks with a secret, so it is computed once for each mark that the
// store wrote.
func findCommit(f vfs.File, num uint64, damage int64, want func(commitMark) bool) (int64, error) {
	block := make([]byte, recordBlock)
	for start := damage - damage%recordBlock; ; start += recordBlock {
		n, err := f.ReadAt(block, start)
		if err != nil && err != io.EOF {
			return -1, err
		}
		from := int(max(damage+1-start, 0))
		for ; from < n; from++ {
			payload, sum, ok := beginsRecord(block[from:n], num)
			if !ok {
				continue
			}
			if m, ok := batchMark(payload); ok && want(m) && sum() {
				return start + int64(from), nil
			}
		}
		if n < recordBlock {
			return -1, nil
		}
	}
}

// beginsRecord reports whether the first chunk of a record of this log may begin here. It returns
// the chunk's payload, and a function that reports whether its checksum is right.
func beginsRecord(b []byte, num uint64) (payload []byte, sum func() bool, ok bool) {
	const length, kind, log = 4, 6, 7 // offsets; the checksum comes first
	header := 11
	if len(b) < header || binary.LittleEndian.Uint32(b[log:]) != uint32(num) {
		return nil, nil, false
	}
	switch b[kind] { // whole or first
	case 5, 6:
	case 9, 10: // of a log that says what is synced
		header = 19
	default:
		return nil, nil, false
	}
	end := header + int(binary.LittleEndian.Uint16(b[length:]))
	if end > len(b) {
		return nil, nil, false
	}
	return b[header:end], func() bool {
		c := crc32.Checksum(b[kind:end], castagnoli)
		return binary.LittleEndian.Uint32(b) == (c>>15|c<<17)+0xa282ead8
	}, true
}
