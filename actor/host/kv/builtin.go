package kv

import (
	"encoding/binary"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The inputs and outputs of the methods kv.*. In JSON a value is a document, and its encoding is
// json unless another one is named: text (a string), bytes ({"$bytes":base64}), u64 and integer
// (whole numbers), v8 ({"$v8":base64}, or the document for V8 to serialize), cbor and typed
// ({"$cbor":base64}). In CBOR a value is a byte string: its stored form.

// The bounds of one call.
const (
	MaxKeys       = 1_000                      // of kv.get_many
	MaxValues     = 16 << 20                   // bytes of the values that kv.get_many returns
	MaxPage       = 1_000                      // entries of kv.list
	DefaultPage   = 100                        // of them, unless the caller names another number
	DefaultSample = 10                         // entries of kv.sample, unless the caller names another number
	MaxLists      = 10                         // of kv.list_many
	MaxListed     = 1_000                      // entries of all its pages together
	MaxChecks     = 1_000                      // of kv.commit
	MaxMutations  = 10_000                     // of kv.commit
	MaxCommit     = 8 << 20                    // bytes of the keys and values of its mutations, as they are stored
	MaxFiltered   = 10_000                     // entries that the filters of kv.commit read
	MaxResolved   = 1_000                      // different placeholders of kv.commit
	MaxSends      = 100                        // of kv.commit
	MaxTTL        = 100 * 365 * 24 * 3_600_000 // milliseconds: 100 years
)

// A Moment selects the entries to read: those of a branch, at the last commit or in the past.
type Moment struct {
	// Branch is the name of a branch; absent means the store itself.
	Branch string `json:"branch,omitempty"`

	// At is a version of the actor: entries are read as they were when it was committed. Absent
	// means now. A version that is no longer known is an error with the reason history_trimmed. A
	// version has no time: an entry that expires is read until a commit removes it, soon after.
	// Commits do not remove the entries that a branch has from its origin: one that has expired
	// since is such an error too, unless the version is pinned.
	At uint64 `json:"at,omitempty"`
	// Time is a time, instead of At: entries are read as of the last commit by then. Times of
	// commits are in the order of their versions, regardless of the clock.
	Time *time.Time `json:"time,omitempty"`
}

// GetInput names an entry.
type GetInput struct {
	Moment
	Key Key `json:"key"`
}

// GetManyInput names up to MaxKeys entries.
type GetManyInput struct {
	Moment
	Keys []Key `json:"keys" max:"1000"`
}

// An Entry is an entry of the store.
type Entry struct {
	Key Key `json:"key"`
	// Value is absent in a listing of keys.
	Value host.Raw `json:"value,omitempty"`
	// Encoding is the encoding of Value; absent in JSON for a document.
	Encoding string `json:"encoding,omitempty"`
	// Version is the version of the commit that wrote the entry last.
	Version uint64    `json:"version"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Expires is when the entry expires; absent for never.
	Expires *time.Time `json:"expires,omitempty"`
}

// GetOutput has the entry, if there is one. A value of null is an entry.
type GetOutput struct {
	Entry *Entry `json:"entry,omitempty"`
}

// GetManyOutput has the entries in the order of the keys, and null where there is none. All are of
// one commit.
type GetManyOutput struct {
	Entries []*Entry `json:"entries"`
}

// A Selection selects the entries whose keys begin with the parts of Prefix, or are from Start up
// to and without End. Start and End may end with {"$raw":base64}, bytes that follow the stored form
// of the parts before them. Without any it selects all, which only reading methods accept.
type Selection struct {
	Prefix Key `json:"prefix,omitempty"`
	Start  Key `json:"start,omitempty"`
	End    Key `json:"end,omitempty"`
}

// ListInput asks for a page of entries in the order of their keys.
type ListInput struct {
	Moment
	Selection
	// Where is a filter for the page's entries. With a filter, a page may be short or empty and
	// still have a cursor.
	Where host.Raw `json:"where,omitempty"`
	// Limit bounds the entries of the page; absent means DefaultPage.
	Limit    int  `json:"limit,omitempty" range:"1,1000"`
	Reverse  bool `json:"reverse,omitempty"`
	KeysOnly bool `json:"keys_only,omitempty"`
	// Cursor continues after an earlier page of the same selection, filter and direction. Any other
	// cursor is refused.
	Cursor string `json:"cursor,omitempty"`
	// Digest asks for the digest of the entries that the page read.
	Digest bool `json:"digest,omitempty"`
}

// ListOutput is a page. Cursor is absent at the end.
type ListOutput struct {
	Entries []Entry `json:"entries"`
	Cursor  string  `json:"cursor,omitempty"`
	// Digest identifies the part of the selection that the page covers, including entries that do
	// not meet the filter. A check with it demands that no entry there was written, added or
	// removed since.
	Digest string `json:"digest,omitempty"`
}

// ListManyInput asks for up to MaxLists pages, whose limits are together up to MaxListed.
type ListManyInput struct {
	Lists []ListInput `json:"lists" max:"10"`
}

// ListManyOutput has the pages in the order of the lists. All are of one commit. A page with a
// limit of 1 may have a cursor at the end.
type ListManyOutput struct {
	Pages []ListOutput `json:"pages"`
}

// CountInput selects the entries to count.
type CountInput struct {
	Moment
	Selection
	// Cursor continues after an earlier answer for the same selection. Any other is refused.
	Cursor string `json:"cursor,omitempty"`
}

// CountOutput has a count: of all if Cursor is absent, and otherwise of the entries up to where the
// next call continues.
type CountOutput struct {
	Count  int64  `json:"count"`
	Cursor string `json:"cursor,omitempty"`
}

// SampleInput asks for entries of a selection, each chosen with the same chance.
type SampleInput struct {
	Moment
	Selection
	// N bounds the entries; absent means DefaultSample.
	N int `json:"n,omitempty" range:"1,1000"`
	// Seed decides the choice: the same seed chooses the same entries from the same keys.
	Seed     uint64 `json:"seed,omitempty"`
	KeysOnly bool   `json:"keys_only,omitempty"`
	// Cursor continues after an earlier answer for the same selection. Any other is refused.
	Cursor string `json:"cursor,omitempty"`
}

// SampleOutput has the entries in the order of their keys. Count is the number of entries from
// which they were chosen: all if Cursor is absent, and otherwise those up to where the next call
// continues. Their values have up to MaxValues bytes.
type SampleOutput struct {
	Entries []Entry `json:"entries"`
	Count   int64   `json:"count"`
	Cursor  string  `json:"cursor,omitempty"`
}

// CommitInput is a commit: if all checks hold, all mutations are done, in order. Otherwise none is.
// A mutation that cannot be done is an error, and then none is done either.
type CommitInput struct {
	// Branch is the name of the branch whose entries change; absent means the store itself.
	Branch    string     `json:"branch,omitempty"`
	Checks    []Check    `json:"checks,omitempty" max:"1000"`
	Mutations []Mutation `json:"mutations,omitempty" max:"10000"`
	// Sends are messages to queues of the actor, sent after the mutations. Handlers send with their
	// turn instead.
	Sends []host.QueueSendInput `json:"sends,omitempty" max:"100"`
}

// A Check is a condition on the entry of a key, or demands that a part of a selection is unchanged
// since a page of kv.list. It has exactly one of Version, Exists, Value and Digest.
type Check struct {
	// Key is absent with Digest.
	Key Key `json:"key,omitempty"`
	// Version is the required version of the entry; 0 demands that there is no entry.
	Version *uint64 `json:"version,omitempty"`
	// Exists demands that there is an entry, or that there is none.
	Exists *bool `json:"exists,omitempty"`
	// Value demands that there is an entry whose value equals this one, compared like $eq of
	// filters: numbers by value, and objects in any order.
	Value    host.Raw `json:"value,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	// Digest is the digest of a page of kv.list.
	Digest string `json:"digest,omitempty"`
}

// A Mutation changes entries. Op is one of
//
//	put              stores Value
//	delete           removes the entry of Key
//	delete_range     removes the entries of a Selection, which must not be empty, or those of them that meet Where
//	sum, min, max    put the sum, the least or the greatest of the entry's value and Value, which are numbers
//	append, prepend  put the entry's value with Value behind or in front: arrays, or both text, or both bytes
//	touch            changes when the entry expires
//
// If there is no entry, sum and the like put Value.
type Mutation struct {
	Op string `json:"op"`
	// Key is the key of the entry, for all operations except delete_range.
	Key Key `json:"key,omitempty"`
	Selection
	// Where is a filter of a delete_range. The filters of one commit read up to MaxFiltered
	// entries; more is an error.
	Where    host.Raw `json:"where,omitempty"`
	Value    host.Raw `json:"value,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	// Literal stores a document unchanged. Otherwise the placeholders in it are replaced by
	// strings: {"$uuidv7":true}, {"$uuidv7":NAME} and {"$versionstamp":true}.
	Literal bool `json:"literal,omitempty"`
	// TTLMS is how long the entry lives from now, 1 ms to 100 years; 0 is for ever. If it is
	// absent, a changed entry keeps its time, and a put entry has the default of its scope, or
	// lives for ever if there is none. Touch needs it.
	TTLMS *int64 `json:"ttl_ms,omitempty"`
	// Expires is when the entry expires, up to 100 years from now, instead of TTLMS. A past time
	// means that there is no entry.
	Expires *time.Time `json:"expires,omitempty"`
	// Min and Max bound the result of a sum. A result beyond them is an error, or becomes the bound
	// with Clamp.
	Min   host.Raw `json:"min,omitempty"`
	Max   host.Raw `json:"max,omitempty"`
	Clamp bool     `json:"clamp,omitempty"`
	// MaxLen, at least 1, bounds the elements of the array that an append or prepend makes:
	// elements at its other end are removed.
	MaxLen *int64 `json:"max_len,omitempty"`
}

// CommitOutput is the result of a commit. A failed check is no error.
type CommitOutput struct {
	OK bool `json:"ok"`
	// Failed are the positions of the checks that failed, from 0.
	Failed []int `json:"failed,omitempty"`
	// Version is the version of the commit, and of the entries that it changed. Each commit takes
	// one, even if it is empty.
	Version uint64 `json:"version,omitempty"`
	// Results has an element for each mutation, in order.
	Results []MutationResult `json:"results,omitempty"`
	// Blind is set if the results leave out how many entries were deleted, because the token of the
	// caller lacks the right read.
	Blind bool `json:"blind,omitempty"`
	// Resolved has the string of each placeholder: "uuidv7", "uuidv7:NAME" and "versionstamp".
	Resolved map[string]string `json:"resolved,omitempty"`
	// Sends has an element for each send of the input.
	Sends []host.QueueSendOutput `json:"sends,omitempty"`
}

// PurgeOutput counts the removed entries. More is set if another call would find others.
type PurgeOutput struct {
	Purged int64 `json:"purged"`
	More   bool  `json:"more,omitempty"`
}

// Stamp returns a version as clients of Deno KV see it: 10 bytes in the order of versions.
func Stamp(version uint64) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 10), version), 0, 0)
}

// A MutationResult is the result of a mutation.
type MutationResult struct {
	// Value is the entry's new value, after sum, min and max only. Handlers get it after all
	// mutations of one entry except delete.
	Value    host.Raw `json:"value,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	// Expires is when the entry expires; absent for never.
	Expires *time.Time `json:"expires,omitempty"`
	// Deleted counts the entries that were removed.
	Deleted int64 `json:"deleted,omitempty"`
}

// A Committer is a turn in which handlers commit to the key-value store. Values are as in CBOR.
// After an error nothing of the commit is done, and the turn may go on.
type Committer interface {
	KVCommit(in *CommitInput) (CommitOutput, error)
	// KVUpdate begins an update. end ends it, once. With an error, it undoes the writes to the
	// key-value store since then, and returns that error. If the turn had other effects, which
	// cannot be undone alone, undone is false, and the turn must fail.
	KVUpdate() (end func(err error) (undone bool, e error), err error)
}
