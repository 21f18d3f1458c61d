package keyspace

import "github.com/cairn-run/cairn/keyspace/tuple"

// ListingField is a field of the listing index that each actor has. The other fields are attributes
// and have names.
type ListingField uint64

// The fields. Both are coarse, so most commits of an actor do not change its rows.
const (
	ListingSize    ListingField = 1 // bytes of keys and values, rounded down by [SizeStep]
	ListingUpdated ListingField = 2 // Unix milliseconds of the last commit, rounded down by [MinuteStep]
)

// SizeStep rounds a size down to the step of the listing index: its four highest bits remain.
func SizeStep(size int64) int64 {
	step := int64(1)
	for size/step >= 16 {
		step *= 2
	}
	return size / step * step
}

// MinuteStep rounds Unix milliseconds down to the minute.
func MinuteStep(ms int64) int64 {
	const minute = 60_000
	return ms - (ms%minute+minute)%minute
}

// AppendListing appends the common prefix of the listing index rows of one actor type. A row
// continues with a field, a value, and the parts of the actor's key. The field is the number of a
// [ListingField] or the name of an attribute, the value any element of a tuple.
func AppendListing(dst []byte, namespace, typ string) []byte {
	return tuple.AppendString(AppendListingNamespace(dst, namespace), typ)
}

// AppendListingNamespace appends the common prefix of the listing index rows of one namespace.
func AppendListingNamespace(dst []byte, namespace string) []byte {
	return tuple.AppendString(appendSpace(dst, spaceListing), namespace)
}

// Listing returns the bounds of the listing index.
func Listing() (start, end []byte) {
	start = appendSpace(nil, spaceListing)
	return start, Successor(start)
}

// AppendListingKey appends the parts of an actor's key, which end a row of the listing index.
func AppendListingKey(dst []byte, key []string) []byte {
	for _, part := range key {
		dst = tuple.AppendString(dst, part)
	}
	return dst
}

// ParseListing parses a row of the listing index that begins with prefix bytes of its type and
// field. The value shares the row's memory; key is nil for an actor whose key has no parts.
func ParseListing(row []byte, prefix int) (value []byte, key []string, err error) {
	d := tuple.NewDecoder(row[prefix:])
	if _, err = d.Next(); err == nil {
		value = row[prefix : prefix+d.Offset()]
		key, err = actorKey(&d)
	}
	if err != nil {
		return nil, nil, inside("row", prefix, err)
	}
	return value, key, nil
}

func (r *Row) parseListing(d *tuple.Decoder) error {
	namespace, err := d.String()
	if err != nil {
		return err
	}
	typ, err := d.String()
	if err != nil {
		return err
	}
	var field any
	if d.Peek() == tuple.TypeString {
		field, err = d.String()
	} else {
		field, err = d.Uint()
	}
	if err != nil {
		return err
	}
	value, err := d.Next()
	if err != nil {
		return err
	}
	key, err := actorKey(d)
	r.listing = tuple.Tuple{namespace, typ, field, value}
	for _, part := range key {
		r.listing = append(r.listing, part)
	}
	return err
}
