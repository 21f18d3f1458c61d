package keyspace

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// Slots is the number of hash slots that actors are spread over. It is part of
// the format: changing it would change the slot of every actor.
const Slots = 16384

// ActorID names one life of an actor, from its creation to its destruction. It
// is a UUID of version 8 (RFC 9562), made once:
//
//	 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
//	[slot ][unix seconds][8r][r ][vr][ r  r  r  r  r  r  r ]
//
// slot is big-endian and less than [Slots]; the seconds are big-endian and
// unsigned (they last until the year 2106); 8r has the version 8 in its high
// four bits; vr has the variant 10 in its high two bits; r is random, 74 bits
// in all. So ids order by slot, then by age, and the rows of a range of slots
// are contiguous.
//
// The zero ActorID names no actor.
type ActorID uuid.UUID

// NewActorID puts an id together. The slot is taken modulo [Slots]; six bits of
// random make room for version and variant.
func NewActorID(slot uint16, unixSeconds uint32, random [10]byte) ActorID {
	var id ActorID
	binary.BigEndian.PutUint16(id[0:], slot%Slots)
	binary.BigEndian.PutUint32(id[2:], unixSeconds)
	copy(id[6:], random[:])
	id[6] = 0x80 | id[6]&0x0F
	id[8] = 0x80 | id[8]&0x3F
	return id
}

// IsZero reports whether id names no actor.
func (id ActorID) IsZero() bool { return id == ActorID{} }

// String returns the id as a UUID in the form 8-4-4-4-12, lower-case.
func (id ActorID) String() string { return uuid.UUID(id).String() }

// AppendString appends [ActorID.String].
func (id ActorID) AppendString(dst []byte) []byte {
	text, _ := uuid.UUID(id).MarshalText() // never fails, and stays on the stack
	return append(dst, text...)
}

// MarshalText returns [ActorID.String]; the error is always nil.
func (id ActorID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText parses the form 8-4-4-4-12 in hexadecimal digits of either case. It refuses the
// other forms of [uuid.Parse], and a UUID that [NewActorID] does not make. The error is a
// [*SyntaxError]; its offset is 0 if 36 characters are not of that form.
func (id *ActorID) UnmarshalText(text []byte) error {
	parsed, err := parseActorID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

func parseActorID(s string) (ActorID, error) {
	fail := func(at int, reason string) (ActorID, error) {
		return ActorID{}, &SyntaxError{"actor id", at, reason}
	}
	if len(s) != 36 {
		return fail(min(len(s), 36), fmt.Sprintf("want 36 characters, have %d", len(s)))
	}
	u, err := uuid.Parse(s)
	switch slot := binary.BigEndian.Uint16(u[:]); {
	case err != nil:
		return fail(0, "want hexadecimal digits in the form 8-4-4-4-12")
	case u.Version() != 8:
		return fail(14, "want a UUID of version 8")
	case u.Variant() != uuid.RFC4122: // today RFC 9562
		return fail(19, "want a UUID of variant 10")
	case slot >= Slots:
		return fail(0, fmt.Sprintf("slot %d is not below %d", slot, Slots))
	}
	return ActorID(u), nil
}

// AppendSlotInput appends the bytes whose hash chooses an actor's slot: the
// namespace, the type and each part of the key, each as its length (u32
// big-endian) and its bytes. The slot is xxh3-64 of them modulo [Slots]. The
// lengths keep ("ab", "c") and ("a", "bc") apart.
func AppendSlotInput(dst []byte, namespace, typ string, key []string) []byte {
	dst = appendSized(dst, namespace)
	dst = appendSized(dst, typ)
	for _, part := range key {
		dst = appendSized(dst, part)
	}
	return dst
}

func appendSized(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}
