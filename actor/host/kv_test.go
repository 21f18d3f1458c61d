package host

import (
	"bytes"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestWhatIsReadFromAPageStaysWhenThePageIsFilledAgain(t *testing.T) {
	for _, reuse := range []bool{false, true} { // then only until it is filled again
		page := KVPage{Reuse: reuse}
		var kept [][]byte
		for n := range 3 {
			page.Clear()
			for i := range 100 {
				value := bytes.Repeat([]byte{byte(n)}, 10*i*i) // the last are larger than a block
				if i == 1 {
					value = nil
				}
				page.Add([]byte{byte(n), byte(i)}, value, 1<<20).KVInfo = KVInfo{Version: uint64(i), ExpireMS: int64(n)}
			}
			if n := len(page.Entries); n != 100 {
				t.Fatal(n)
			}
			for i := range page.Entries {
				key, value, info := page.Entries[i].Key, page.Entries[i].Value, page.Entries[i].KVInfo
				if !bytes.Equal(key, []byte{byte(n), byte(i)}) || (value == nil) != (i == 1) || i != 1 && len(value) != 10*i*i ||
					bytes.Count(value, []byte{byte(n)}) != len(value) || info != (KVInfo{Version: uint64(i), ExpireMS: int64(n)}) {
					t.Fatalf("entry %d of page %d is %x, %d bytes, %+v", i, n, key, len(value), info)
				}
				if i == 10 {
					kept = append(kept, value)
				}
			}
		}
		if !reuse && bytes.Count(kept[0], []byte{0}) != 1000 {
			t.Errorf("the first page has become %x", kept[0][:10])
		}
	}
}

// TestAPageUsesItsMemoryAgain fills pages of one size, and pages that grow, where each block is
// sized for the rest of its page.
func TestAPageUsesItsMemoryAgain(t *testing.T) {
	page, value := KVPage{Reuse: true}, make([]byte, 500)
	most := 4 << 10
	for name, fill := range map[string]func(){
		"one size": func() {
			page.Clear()
			for range 100 {
				page.Add([]byte("a key"), value, 50_000) // the last pass the end
			}
		},
		"growing": func() {
			page.Clear()
			for room := most; room > 0; room -= 100 {
				page.Add(nil, value[:100], room)
			}
			most = min(4*most, 64<<10)
		},
	} {
		page = KVPage{Reuse: true}
		for range 5 {
			fill()
		}
		n := testing.AllocsPerRun(10, fill)
		errorIf(t, n != 0, "%s: %v allocations", name, n)
	}
}

var errorIf = testutil.ErrorIf
