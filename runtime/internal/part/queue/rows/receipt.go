package queuerows

import (
	"encoding/base64"
	"encoding/binary"
)

// A receipt is the id of a message as uvarint and the nonce of its lock as u64, in base64url
// without padding.
func receipt(id, nonce uint64) string {
	var b [binary.MaxVarintLen64 + 8]byte
	n := binary.PutUvarint(b[:], id)
	binary.BigEndian.PutUint64(b[n:], nonce)
	return base64.RawURLEncoding.EncodeToString(b[:n+8])
}

// maxReceipt is the length of the longest receipt.
const maxReceipt = ((binary.MaxVarintLen64+8)*8 + 5) / 6

// parseReceipt returns false for an invalid receipt: each lock has exactly one.
func parseReceipt(r string) (id, nonce uint64, ok bool) {
	if len(r) > maxReceipt {
		return 0, 0, false
	}
	var b [binary.MaxVarintLen64 + 8 + 2]byte
	n, err := base64.RawURLEncoding.Decode(b[:], []byte(r))
	if err != nil || n < 9 {
		return 0, 0, false
	}
	id, k := binary.Uvarint(b[:n])
	if k != n-8 || id == 0 {
		return 0, 0, false
	}
	nonce = binary.BigEndian.Uint64(b[k:])
	return id, nonce, receipt(id, nonce) == r
}

// nextNonce returns the nonce of a new lock: the time in milliseconds and a counter of 20 bits. So
// it differs from every earlier nonce, even of a message with the same id in an earlier life of the
// actor.
func nextNonce(was uint64, now int64) uint64 {
	const bits = 20
	return uint64(now)<<bits | (was+1)&(1<<bits-1)
}
