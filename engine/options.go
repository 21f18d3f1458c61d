package engine

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cairn-run/cairn/keyspace"
)

// Defaults and caps of Limits, in bytes unless named otherwise.
const (
	DefaultMaxKey      = 2048
	MaxKeyCap          = 64 << 10
	DefaultMaxValue    = 1 << 20
	MaxValueCap        = 16 << 20
	DefaultMaxWriteSet = 64 << 20
	MaxWriteSetCap     = 1 << 30 // Pebble refuses batches of 4 GiB
	DefaultQuota       = 10 << 30
	DefaultListEntries = 16384
	DefaultListBytes   = 16 << 20
)

// Defaults of Options, in bytes.
const (
	DefaultCacheBytes    = 256 << 20
	DefaultMemTableBytes = 64 << 20
	DefaultMinFreeBytes  = 256 << 20
	DefaultWriteBytes    = 1 << 30
)

// ChunkSize is how many bytes of a value one data row holds.
const ChunkSize = keyspace.ChunkSize

// Durability says when a commit is reported as durable.
type Durability uint8

const (
	// Sync reports a commit when it is on stable storage. It survives a power
	// cut.
	Sync Durability = iota
	// NoSync reports a commit when it is applied. A crash of the machine, or a kill of the process,
	// may lose the last commits; a prefix of them remains, and no commit is torn. For tests and
	// caches.
	NoSync
)

func (d Durability) String() string {
	switch d {
	case Sync:
		return "sync"
	case NoSync:
		return "no sync"
	default:
		return fmt.Sprintf("durability %d", uint8(d))
	}
}

// Limits bounds the writes of one actor. A zero field means its default.
type Limits struct {
	MaxKey      int   // bytes of a logical key under keyspace.UserKV.Kind, without its first byte; keys of other kinds may have MaxKeyCap
	MaxValue    int   // bytes of a value under keyspace.UserKV.Kind; values of other kinds may have MaxValueCap
	MaxWriteSet int   // bytes that one turn may add to a write set, savepoints included
	Quota       int64 // bytes of all keys and values of an actor
	ListEntries int   // entries of a list without a limit
	ListBytes   int   // bytes of keys and values of a list without a byte limit
}

// EnsureDefaults sets the fields that are zero to their defaults.
func (l *Limits) EnsureDefaults() {
	if l.MaxKey == 0 {
		l.MaxKey = DefaultMaxKey
	}
	if l.MaxValue == 0 {
		l.MaxValue = DefaultMaxValue
	}
	if l.MaxWriteSet == 0 {
		l.MaxWriteSet = DefaultMaxWriteSet
	}
	if l.Quota == 0 {
		l.Quota = DefaultQuota
	}
	if l.ListEntries == 0 {
		l.ListEntries = DefaultListEntries
	}
	if l.ListBytes == 0 {
		l.ListBytes = DefaultListBytes
	}
}

// A RangeError says which field of Limits is out of its range.
type RangeError struct {
	Field            string
	Value, Low, High int64
}

// Error names the field and its range.
func (e *RangeError) Error() string {
	return fmt.Sprintf("engine: Limits.%s is %d, want %d to %d", e.Field, e.Value, e.Low, e.High)
}

// Validate returns every fault of the limits, joined. Each is a [*RangeError].
func (l Limits) Validate() error {
	var faults []error
	check := func(name string, value, low, high int64) {
		if value < low || value > high {
			faults = append(faults, &RangeError{name, value, low, high})
		}
	}
	check("MaxKey", int64(l.MaxKey), 16, 16<<10)
	check("MaxValue", int64(l.MaxValue), 1, MaxValueCap)
	check("MaxWriteSet", int64(l.MaxWriteSet), 4<<10, MaxWriteSetCap)
	check("Quota", l.Quota, 1, 1<<60)
	check("ListEntries", int64(l.ListEntries), 1, 1<<30)
	check("ListBytes", int64(l.ListBytes), 1, 1<<30)
	return errors.Join(faults...)
}

// Options says how to open a store. Only Dir (or Disk) must be set; other zero fields mean the
// default.
type Options struct {
	// Dir is the directory of the store; it is created if it does not exist. On
	// a Disk it may be empty.
	Dir string
	// DataDir is the directory that users know, if Dir is inside it. The warning that others can
	// read it names how to make it private. Default is Dir.
	DataDir string

	// Disk is a memory filesystem for tests and caches; nil means the operating
	// system's.
	Disk *Disk

	Durability Durability

	// PlainCommit waits for the log through Pebble's stable API instead of its experimental one.
	// The guarantees are the same.
	PlainCommit bool

	CacheBytes    int64  // block cache
	MemTableBytes uint64 // one of up to four memtables

	// WriteBytes bounds the bytes that the write sets of all actors hold together. A write that
	// needs more returns ErrBusy. Sets of up to 64 KiB are not counted.
	WriteBytes int64

	// MinFreeBytes is the free disk space below which commits are refused that do not make their
	// actor smaller. Below a quarter of it all commits are. The default is 256 MiB, or a sixteenth
	// of a disk smaller than 4 GiB.
	MinFreeBytes uint64

	// AcceptDataLoss opens a damaged store without the lost data, where Open otherwise returns
	// ErrDamaged. The logger reports what is left out, and copies of the old files stay in a
	// directory "damaged-N" of the store. It is for one start: never leave it on.
	AcceptDataLoss bool

	Limits Limits

	// Logger gets Pebble's log at level debug, and the one error that turns the
	// store read-only. Nil discards both.
	Logger *slog.Logger
}

// EnsureDefaults sets the fields that are zero to their defaults. MinFreeBytes
// stays zero: its default depends on the disk.
func (o *Options) EnsureDefaults() {
	if o.Dir == "" && o.Disk != nil {
		o.Dir = "store"
	}
	if o.DataDir == "" {
		o.DataDir = o.Dir
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	if o.WriteBytes == 0 {
		o.WriteBytes = DefaultWriteBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits.EnsureDefaults()
}

// Validate returns every fault of the options, joined. Zero fields are faults
// only where there is no default.
func (o Options) Validate() error {
	o.EnsureDefaults()
	var faults []error
	if o.Dir == "" {
		faults = append(faults, errors.New("engine: Options.Dir is empty"))
	}
	if o.Durability > NoSync {
		faults = append(faults, fmt.Errorf("engine: Options.Durability is %d", o.Durability))
	}
	if o.CacheBytes < 0 {
		faults = append(faults, fmt.Errorf("engine: Options.CacheBytes is %d", o.CacheBytes))
	}
	if o.MemTableBytes < 64<<10 || o.MemTableBytes > 1<<30 {
		faults = append(faults,
			fmt.Errorf("engine: Options.MemTableBytes is %d, want %d to %d", o.MemTableBytes, 64<<10, 1<<30))
	}
	if o.WriteBytes < writeStep {
		faults = append(faults,
			fmt.Errorf("engine: Options.WriteBytes is %d; the least is %d", o.WriteBytes, writeStep))
	}
	if err := o.Limits.Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
