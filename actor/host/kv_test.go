package host

import (
	"bytes"
	"testing"
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

func TestAPageUsesItsMemoryAgain(t *testing.T) {
	page := KVPage{Reuse: true}
	fill := func() {
		page.Clear()
		for range 100 {
			page.Add([]byte("a key"), make([]byte, 500), 50_000) // the last pass the end
		}
	}
	fill()
	if n := testing.AllocsPerRun(10, fill); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The pages of a listing grow, and each block is begun for what is left of its page.
func TestAPageThatGrowsUsesItsMemoryAgainInTheEnd(t *testing.T) {
	page, most := KVPage{Reuse: true}, 4<<10
	value := make([]byte, 100)
	fill := func() {
		page.Clear()
		for room := most; room > 0; room -= len(value) {
			page.Add(nil, value, room)
		}
		most = min(4*most, 64<<10)
	}
	for range 5 {
		fill()
	}
	if n := testing.AllocsPerRun(10, fill); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAnEmptyValueIsNoMissingOne(t *testing.T) {
	var page KVPage
	page.Add(nil, []byte{}, 10)
	page.Add(nil, nil, 10)
	empty, none := page.Entries[0].Value, page.Entries[1].Value
	if empty == nil || none != nil {
		t.Errorf("%#v, %#v", empty, none)
	}
}
