package keyspace

import "strconv"

// The keys of one-way messages between actors. The sender holds Outgoing and
// FailedSend; the receiver holds Received.

// Received is the key of the last sequence handled from a sender: 13 and the 16
// bytes of the sender's id. They are raw so that no byte needs escaping.
type Received struct{ Sender ActorID }

// AppendReceived appends the key for a sender.
func AppendReceived(dst []byte, sender ActorID) []byte {
	dst = append(dst, byte(KindReceived))
	return append(dst, sender[:]...)
}

// ParseReceived returns the id of the sender.
func ParseReceived(key []byte) (ActorID, error) {
	if err := checkKind(key, KindReceived); err != nil {
		return ActorID{}, err
	}
	if len(key) != 17 {
		return ActorID{}, &SyntaxError{what(KindReceived), min(len(key), 17), "want 16 bytes after the kind"}
	}
	return ActorID(key[1:]), nil
}

// Kind returns [KindReceived].
func (Received) Kind() Kind { return KindReceived }

// Append appends the bytes of the key.
func (k Received) Append(dst []byte) []byte { return AppendReceived(dst, k.Sender) }

// String returns the form received/<actor id>.
func (k Received) String() string { return "received/" + k.Sender.String() }

func (Received) key() {}

// Outgoing is the key of a message that its target has not handled yet: 14 and
// its sequence number in the sender.
type Outgoing struct{ Sequence uint64 }

// AppendOutgoing appends the key of a message.
func AppendOutgoing(dst []byte, sequence uint64) []byte {
	return appendSequence(dst, KindOutgoing, sequence)
}

// ParseOutgoing returns the sequence number.
func ParseOutgoing(key []byte) (uint64, error) { return parseSequence(key, KindOutgoing, 0) }

// Kind returns [KindOutgoing].
func (Outgoing) Kind() Kind { return KindOutgoing }

// Append appends the bytes of the key.
func (k Outgoing) Append(dst []byte) []byte { return AppendOutgoing(dst, k.Sequence) }

// String returns the form outgoing/7.
func (k Outgoing) String() string { return "outgoing/" + strconv.FormatUint(k.Sequence, 10) }

func (Outgoing) key() {}

// FailedSend is the key of a message that was given up and moved aside: 15 and
// its sequence number in the sender.
type FailedSend struct{ Sequence uint64 }

// AppendFailedSend appends the key of a message.
func AppendFailedSend(dst []byte, sequence uint64) []byte {
	return appendSequence(dst, KindFailedSends, sequence)
}

// ParseFailedSend returns the sequence number.
func ParseFailedSend(key []byte) (uint64, error) { return parseSequence(key, KindFailedSends, 0) }

// Kind returns [KindFailedSends].
func (FailedSend) Kind() Kind { return KindFailedSends }

// Append appends the bytes of the key.
func (k FailedSend) Append(dst []byte) []byte { return AppendFailedSend(dst, k.Sequence) }

// String returns the form failed-send/7.
func (k FailedSend) String() string { return "failed-send/" + strconv.FormatUint(k.Sequence, 10) }

func (FailedSend) key() {}
