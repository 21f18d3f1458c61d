package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// TraceBucketSeconds is how much time one bucket of traces covers.
const TraceBucketSeconds = 3600

// traceData is the only family of trace keys.
const traceData = 1

// TraceChunk is the key of one chunk of spans: 08 and the tuple (1, bucket,
// chunk). Bucket is the Unix second at which the bucket begins, Chunk counts
// from 0 in each bucket.
type TraceChunk struct {
	Bucket int64
	Chunk  uint64
}

// AppendTraceChunk appends the key of a chunk.
func AppendTraceChunk(dst []byte, bucket int64, chunk uint64) []byte {
	return tuple.AppendUint(AppendTraceBucket(dst, bucket), chunk)
}

// AppendTraceBucket appends what the keys of a bucket's chunks begin with. The
// buckets [a, b) are the range from that of a to that of b.
func AppendTraceBucket(dst []byte, bucket int64) []byte {
	dst = append(dst, byte(KindTraces))
	dst = tuple.AppendUint(dst, traceData)
	return tuple.AppendInt(dst, bucket)
}

// ParseTraceChunk takes the key of a chunk apart. It does not check that the
// bucket is a multiple of [TraceBucketSeconds].
func ParseTraceChunk(key []byte) (TraceChunk, error) {
	if err := checkKind(key, KindTraces); err != nil {
		return TraceChunk{}, err
	}
	k, err := parseTraceChunk(key[1:])
	return k, within(KindTraces, 1, err)
}

func parseTraceChunk(packed []byte) (k TraceChunk, err error) {
	d := tuple.NewDecoder(packed)
	family, err := d.Uint()
	if err != nil {
		return TraceChunk{}, err
	}
	if family != traceData {
		return TraceChunk{}, &tuple.SyntaxError{Offset: 0, Reason: "unknown family " + strconv.FormatUint(family, 10)}
	}
	if k.Bucket, err = d.Int(); err != nil {
		return TraceChunk{}, err
	}
	if k.Chunk, err = d.Uint(); err != nil {
		return TraceChunk{}, err
	}
	return k, d.End()
}

// Kind returns [KindTraces].
func (TraceChunk) Kind() Kind { return KindTraces }

// Append appends the bytes of the key.
func (k TraceChunk) Append(dst []byte) []byte { return AppendTraceChunk(dst, k.Bucket, k.Chunk) }

// String returns the form trace/1771891200/chunk 300.
func (k TraceChunk) String() string {
	return "trace/" + strconv.FormatInt(k.Bucket, 10) + "/chunk " + strconv.FormatUint(k.Chunk, 10)
}

func (TraceChunk) key() {}
