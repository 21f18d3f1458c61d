package rowmap

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func pick(r *rand.Rand, alphabet string, most int) (text string) {
	for range r.IntN(most + 1) {
		text += string(alphabet[r.IntN(len(alphabet))])
	}
	return text
}

// TestRowsAgainstAModel changes rows at random, in transactions, some of which are undone.
func TestRowsAgainstAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rows := New()
	committed := map[string]string{}
	for range 500 {
		now := maps.Clone(committed)
		for range r.IntN(8) {
			key, other := pick(r, "abc", 2), pick(r, "abc", 2)
			switch r.IntN(3) {
			case 0:
				value := pick(r, "xy", 2)
				_ = rows.Put([]byte(key), []byte(value))
				now[key] = value
			case 1:
				_ = rows.Delete([]byte(key))
				delete(now, key)
			default:
				_ = rows.DeleteRange([]byte(key), []byte(other))
				maps.DeleteFunc(now, func(k, _ string) bool { return k >= key && k < other })
			}
		}
		wantRows(t, rows, now)
		if r.IntN(2) == 0 {
			rows.Commit()
			committed = now
		} else {
			rows.Rollback()
			wantRows(t, rows, committed)
		}
	}
}

func wantRows(t *testing.T, rows *Map, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	var order []string
	_ = rows.Scan(nil, []byte{0xFF}, func(k, v []byte) error {
		got[string(k)] = string(v)
		order = append(order, string(k))
		return nil
	})
	if !maps.Equal(got, want) || !slices.IsSorted(order) {
		t.Fatalf("%v in the order %q, want %v", got, order, want)
	}
}
