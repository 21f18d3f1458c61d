package sqlitevfs

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// TestTemporaryFilesBehaveLikeFiles compares with a slice.
func TestTemporaryFilesBehaveLikeFiles(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	b := &budget{limit: 8 * chunkSize}
	f, model := &temporary{budget: b}, []byte{}
	for range 3000 {
		off := rnd.IntN(3 * chunkSize)
		p := make([]byte, rnd.IntN(9000))
		switch rnd.IntN(4) {
		case 0:
			n := min(off, len(model))
			if err := f.Truncate(int64(n)); err != nil {
				t.Fatal(err)
			}
			model = model[:n]
		case 1, 2:
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			if n, err := f.WriteAt(p, int64(off)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			if len(p) > 0 && off+len(p) > len(model) {
				model = append(model, make([]byte, off+len(p)-len(model))...)
			}
			copy(model[min(off, len(model)):], p)
		default:
			n, err := f.ReadAt(p, int64(off))
			want := model[min(off, len(model)):min(off+len(p), len(model))]
			if !bytes.Equal(p[:n], want) || (n < len(p)) != (err == io.EOF) {
				t.Fatalf("read %d of %d bytes at %d of %d: %v", n, len(p), off, len(model), err)
			}
		}
		if size, _ := f.Size(); size != int64(len(model)) {
			t.Fatalf("size %d, want %d", size, len(model))
		}
	}
	if _, err := f.WriteAt([]byte{1}, b.limit); err != sqlite3.FULL {
		t.Fatalf("beyond the budget: %v", err)
	}
	f.Close()
	if b.used != 0 {
		t.Fatalf("%d bytes are still taken", b.used)
	}
}

func TestFileSystemOpensItsDatabaseOnce(t *testing.T) {
	t.Parallel()
	fs := &fileSystem{main: &file{stop: new(stopper), write: true}}
	if _, _, err := fs.Open("/other", vfs.OPEN_MAIN_DB|vfs.OPEN_READWRITE); err != sqlite3.CANTOPEN {
		t.Fatalf("another name: %v", err)
	}
	f, flags, err := fs.Open(mainName, vfs.OPEN_MAIN_DB|vfs.OPEN_READWRITE)
	if err != nil || f != vfs.File(fs.main) || flags&vfs.OPEN_MEMORY != 0 {
		t.Fatal(f, flags, err)
	}
	for _, flag := range []vfs.OpenFlag{vfs.OPEN_MAIN_DB, vfs.OPEN_MAIN_JOURNAL, vfs.OPEN_WAL, vfs.OPEN_SUPER_JOURNAL} {
		if _, _, err := fs.Open(mainName, flag|vfs.OPEN_READWRITE|vfs.OPEN_CREATE); err != sqlite3.CANTOPEN {
			t.Fatalf("flags %#x: %v", flag, err)
		}
	}
	if _, flags, err := (&fileSystem{main: &file{}}).Open(mainName, vfs.OPEN_MAIN_DB|vfs.OPEN_READWRITE|vfs.OPEN_CREATE); err != nil ||
		flags&vfs.OPEN_READONLY == 0 || flags&vfs.OPEN_READWRITE != 0 {
		t.Fatalf("to read: flags %#x, %v", flags, err)
	}
}
