package keyspace

import (
	"encoding/hex"
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The keys of what a workflow keeps beside its history: metadata, undo
// obligations, its inbox, and large values.

// WorkflowMetadata is the key of the metadata of an entry: 07 and the tuple (4,
// number).
type WorkflowMetadata struct{ Number uint32 }

// AppendWorkflowMetadata appends the key of an entry's metadata.
func AppendWorkflowMetadata(dst []byte, number uint32) []byte {
	return tuple.AppendUint(AppendWorkflowFamily(dst, WorkflowEntries), uint64(number))
}

// ParseWorkflowMetadata returns the number.
func ParseWorkflowMetadata(key []byte) (uint32, error) {
	k, err := parseFamily[WorkflowMetadata](key)
	return k.Number, err
}

// Kind returns [KindWorkflow].
func (WorkflowMetadata) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowMetadata) Append(dst []byte) []byte { return AppendWorkflowMetadata(dst, k.Number) }

// String returns the form workflow/entry 300.
func (k WorkflowMetadata) String() string {
	return "workflow/entry " + strconv.FormatUint(uint64(k.Number), 10)
}

func (WorkflowMetadata) key() {}

// WorkflowUndo is the key of an undo obligation: 07 and the tuple (5, number).
type WorkflowUndo struct{ Number uint64 }

// AppendWorkflowUndo appends the key of an undo obligation.
func AppendWorkflowUndo(dst []byte, number uint64) []byte {
	return tuple.AppendUint(AppendWorkflowFamily(dst, WorkflowUndos), number)
}

// ParseWorkflowUndo returns the number.
func ParseWorkflowUndo(key []byte) (uint64, error) {
	k, err := parseFamily[WorkflowUndo](key)
	return k.Number, err
}

// Kind returns [KindWorkflow].
func (WorkflowUndo) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowUndo) Append(dst []byte) []byte { return AppendWorkflowUndo(dst, k.Number) }

// String returns the form workflow/undo 1.
func (k WorkflowUndo) String() string { return "workflow/undo " + strconv.FormatUint(k.Number, 10) }

func (WorkflowUndo) key() {}

// WorkflowMessage is the key of a message in the inbox of a run: 07 and the tuple
// (6, number).
type WorkflowMessage struct{ Number uint64 }

// AppendWorkflowMessage appends the key of a message in the inbox.
func AppendWorkflowMessage(dst []byte, number uint64) []byte {
	return tuple.AppendUint(AppendWorkflowFamily(dst, WorkflowInbox), number)
}

// ParseWorkflowMessage returns the number.
func ParseWorkflowMessage(key []byte) (uint64, error) {
	k, err := parseFamily[WorkflowMessage](key)
	return k.Number, err
}

// Kind returns [KindWorkflow].
func (WorkflowMessage) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowMessage) Append(dst []byte) []byte { return AppendWorkflowMessage(dst, k.Number) }

// String returns the form workflow/inbox 1.
func (k WorkflowMessage) String() string {
	return "workflow/inbox " + strconv.FormatUint(k.Number, 10)
}

func (WorkflowMessage) key() {}

// WorkflowHash names a large value of a workflow by its content.
type WorkflowHash [32]byte

// WorkflowBlob is the key of a large value: 07 and the tuple (8, hash) for its
// head, (8, hash, chunk) for a part. The head comes before the parts.
type WorkflowBlob struct {
	Hash  WorkflowHash
	Chunk uint32 // counts from 1; 0 is the head
}

// AppendWorkflowBlob appends the key of a large value's head, or of a part of it.
func AppendWorkflowBlob(dst []byte, hash *WorkflowHash, chunk uint32) []byte {
	dst = tuple.AppendBytes(AppendWorkflowFamily(dst, WorkflowBlobs), hash[:])
	if chunk == 0 {
		return dst
	}
	return tuple.AppendUint(dst, uint64(chunk))
}

// ParseWorkflowBlob takes the key apart.
func ParseWorkflowBlob(key []byte) (WorkflowBlob, error) { return parseFamily[WorkflowBlob](key) }

func blobElements(d *tuple.Decoder) (k WorkflowBlob, err error) {
	at := d.Offset()
	hash, err := d.Bytes()
	if err != nil {
		return k, err
	}
	if len(hash) != len(k.Hash) {
		return k, &tuple.SyntaxError{Offset: at, Reason: "hash of " + strconv.Itoa(len(hash)) + " bytes"}
	}
	copy(k.Hash[:], hash)
	if !d.More() {
		return k, nil
	}
	at = d.Offset()
	k.Chunk, err = uint32Element(d)
	if err == nil && k.Chunk == 0 {
		err = &tuple.SyntaxError{Offset: at, Reason: "number below the first"}
	}
	return k, err
}

// Kind returns [KindWorkflow].
func (WorkflowBlob) Kind() Kind { return KindWorkflow }

// Append appends the bytes of the key.
func (k WorkflowBlob) Append(dst []byte) []byte { return AppendWorkflowBlob(dst, &k.Hash, k.Chunk) }

// String returns the form workflow/blob 2cf2...9824, or workflow/blob
// 2cf2...9824/chunk 1, with all digits of the hash.
func (k WorkflowBlob) String() string {
	s := "workflow/blob " + hex.EncodeToString(k.Hash[:])
	if k.Chunk == 0 {
		return s
	}
	return s + "/chunk " + strconv.FormatUint(uint64(k.Chunk), 10)
}

func (WorkflowBlob) key() {}
