package sqlitevfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/ncruces/go-sqlite3"
)

// hashes seeds the hashes of pages, which never leave the process.
var hashes = maphash.MakeSeed()

// A journal is the rollback journal of a write session, as a file.
//
// Before SQLite changes a page, it writes the page there as of the beginning of the transaction.
// The Reader of the session has the same page until the end of the transaction. So a journal keeps
// the bytes of only the first pages, for small transactions, and the number and a hash of the
// others. It reads those again if SQLite needs them to roll back. So a turn that changes 64 MiB of
// pages has a journal of less than 2 MiB.
//
//  1. The file is a header and then records of one form: the number of a page, the page, a
//     checksum. SQLite writes and reads the parts one by one.
//  2. A page that is read again must have the hash. Otherwise the rollback fails, and the session
//     is lost with its connection, but the database is unchanged. After a publish that failed in
//     the middle the Reader has other pages, and none is read.
//  3. At the end of a transaction SQLite writes zeros over the beginning of the header, and writes
//     the file from its beginning in the next one. The zeros empty the file here.
type journal struct {
	private
	file    *file
	header  [journalHeader]byte
	records []journalRecord
	size    int64

	read   [journalRecordSize]byte // the record that was read last
	readAt int                     // its index, or -1
}

// A journalRecord is one record. Its numbers are as SQLite wrote them.
type journalRecord struct {
	number, sum [4]byte
	hash        uint64
	page        *page // nil: read it from the Reader
}

const (
	// journalHeader is the size of the header: one sector.
	journalHeader     = 512
	journalRecordSize = 4 + PageSize + 4
	// keptInJournal is the number of pages whose bytes a journal keeps.
	keptInJournal = 256
	// keptRecords is the capacity of records that is kept for the next transaction.
	keptRecords = 1024
)

// place returns the position of an offset of the file: the index of a record and the offset in it.
func (*journal) place(off int64) (index, at int) {
	off -= journalHeader
	return int(off / journalRecordSize), int(off % journalRecordSize)
}

// WriteAt writes the header, or a part of a record.
func (j *journal) WriteAt(p []byte, off int64) (int, error) {
	j.readAt = -1
	if off == 0 && len(p) < journalHeader {
		return len(p), j.Truncate(0)
	}
	if off+int64(len(p)) <= journalHeader {
		copy(j.header[off:], p)
	} else {
		index, at := j.place(off)
		if off < journalHeader || index > len(j.records) {
			return 0, j.refuse(p, off)
		}
		if index == len(j.records) {
			j.records = append(j.records, journalRecord{})
		}
		r := &j.records[index]
		switch {
		case at == 0 && len(p) == len(r.number):
			r.number = [4]byte(p)
		case at == 4 && len(p) == PageSize:
			j.keep(r, index, p)
		case at == 4+PageSize && len(p) == len(r.sum):
			r.sum = [4]byte(p)
		default:
			return 0, j.refuse(p, off)
		}
	}
	j.size = max(j.size, off+int64(len(p)))
	return len(p), nil
}

func (j *journal) refuse(p []byte, off int64) error {
	return j.file.fail(fmt.Errorf("write of %d bytes at %d of the journal is not a part of a record", len(p), off), sqlite3.IOERR_WRITE)
}

// keep keeps the page of a record, or its hash.
func (j *journal) keep(r *journalRecord, index int, p []byte) {
	if index >= keptInJournal {
		r.hash = maphash.Bytes(hashes, p)
		return
	}
	if r.page == nil {
		r.page = j.file.buffers.page()
	}
	copy(r.page[:], p)
}

// ReadAt reads any part of the file.
func (j *journal) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && off < j.size {
		var from []byte
		if off < journalHeader {
			from = j.header[off:]
		} else {
			index, at := j.place(off)
			if err := j.load(index); err != nil {
				return n, j.file.fail(err, sqlite3.IOERR_READ)
			}
			from = j.read[at:]
		}
		m := copy(p[n:], from[:min(int64(len(from)), j.size-off)])
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// load reads a record into j.read.
func (j *journal) load(index int) error {
	if j.readAt == index {
		return nil
	}
	j.readAt = -1
	r := &j.records[index]
	copy(j.read[:], r.number[:])
	copy(j.read[4+PageSize:], r.sum[:])
	b := j.read[4:][:PageSize]
	switch {
	case r.page != nil:
		copy(b, r.page[:])
	case r.hash != 0: // else it was not written yet
		n := binary.BigEndian.Uint32(r.number[:]) - 1
		if !j.file.leave() {
			return sqlite3.INTERRUPT
		}
		err := j.file.again(b, n)
		j.file.enter()
		if err != nil {
			return err
		}
		if maphash.Bytes(hashes, b) != r.hash {
			return fmt.Errorf("page %d is not what it was at the beginning of the transaction", n)
		}
	}
	j.readAt = index
	return nil
}

// again reads a page as of the last publish.
func (f *file) again(p []byte, n uint32) error {
	if err := f.readable(); err != nil {
		return err
	}
	return f.get(p, n)
}

// Truncate empties the file.
func (j *journal) Truncate(size int64) error {
	if size == j.size {
		return nil
	}
	if size != 0 {
		return j.file.fail(errors.New("a journal is truncated to nothing"), sqlite3.IOERR_TRUNCATE)
	}
	for i := range j.records {
		r := &j.records[i]
		if r.page == nil {
			break // only the first records keep their bytes
		}
		j.file.buffers.putPage(r.page)
	}
	clear(j.records)
	j.records = j.records[:0]
	if cap(j.records) > keptRecords {
		j.records = nil
	}
	j.size, j.readAt = 0, -1
	return nil
}

// Close empties the file.
func (j *journal) Close() error { return j.Truncate(0) }

// Size returns the size.
func (j *journal) Size() (int64, error) { return j.size, nil }

// journalMode is SQLite's default, and that of all connections.
const journalMode = "DELETE"
