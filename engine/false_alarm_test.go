package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// TestPowerCutsAreNoDamage cuts the power at a random operation of a store, again and again, in sessions that open it, write
// little, much or nothing, flush, and close.
func TestPowerCutsAreNoDamage(t *testing.T) {
	for seed := range 10 * *rounds {
		powerCuts(t, uint64(seed))
	}
}

func powerCuts(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	disk := NewDisk()
	durability := Sync
	if rnd.IntN(4) == 0 {
		durability = NoSync
	}
	var acked atomic.Uint64
	for session := range 12 {
		o := small(Options{Disk: disk, MemTableBytes: 64 << 10, Durability: durability})
		limit := int64(1 + rnd.IntN([]int{30, 150, 1000}[rnd.IntN(3)]))
		reached, release := holdAt(disk, limit)
		commits, size, flushes := rnd.IntN(60), []int{10, 3000, 60000}[rnd.IntN(3)], rnd.IntN(3)
		done := make(chan struct{})
		work := rand.New(rand.NewPCG(seed, uint64(session)))
		go func() {
			defer close(done)
			s, err := Open(context.Background(), o)
			if err != nil {
				t.Errorf("seed %d, session %d: %v", seed, session, err)
				return
			}
			defer s.Close()
			sp, err := s.OpenSpace(testID(1))
			if err != nil {
				t.Errorf("seed %d, session %d: %v", seed, session, err)
				return
			}
			if v := uint64(sp.Head().Version); durability == Sync && v < acked.Load() {
				t.Errorf("seed %d, session %d: version %d, and %d was acknowledged", seed, session, v, acked.Load())
			}
			for range commits {
				w := sp.Writes()
				_ = w.Put(kv(strconv.Itoa(work.IntN(50))), []byte(strings.Repeat("v", work.IntN(size))), PutOptions{})
				v := uint64(sp.Head().Version) + 1
				told := make(chan struct{})
				if _, err := sp.Commit(func(err error) {
					if err == nil {
						acked.Store(v)
					}
					close(told)
				}); err != nil {
					return
				}
				if work.IntN(3) == 0 {
					<-told
				}
				if flushes > 0 && work.IntN(20) == 0 {
					_ = s.db.Flush()
				}
			}
		}()
		select {
		case <-reached:
		case <-done:
		}
		before := acked.Load()
		next := disk.Crash(rnd.Uint64(), []int{0, 30, 60, 100}[rnd.IntN(4)])
		close(release)
		<-done
		acked.Store(before)
		disk = next
		if t.Failed() {
			return
		}
	}
}

// A tenant may name a key so that a part of it looks like an edit of the manifest. It does not make the torn edit that holds
// the key a damage, with marks or without.
func TestForgedEditInAKeyIsNoDamage(t *testing.T) {
	edit := []byte{3, 100, 4, 100} // next file number, last sequence number
	record := binary.LittleEndian.AppendUint16(make([]byte, 4), uint16(len(edit)))
	record = seal(append(append(record, 1), edit...)) // a whole record
	for _, marked := range []bool{true, false} {
		m := newImage(t, false)
		name := current(t, m)
		content, _ := contents(t, m.disk, name)
		torn := append(make([]byte, 500), record...) // the first page of the edit did not reach the disk
		m.set(t, name, append(append(content, torn...), make([]byte, 100)...))
		if !marked {
			m.remove(t, markName)
		}
		if out := m.outcome(t, Options{}); out != (outcome{}) {
			t.Errorf("with a mark %t: %+v", marked, out)
		}
	}
}

func current(t testing.TB, m *image) string {
	t.Helper()
	name, err := atomicfs.ReadMarker(m.disk.mem, "store", "manifest")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCommitsSayWhatOfTheManifestWasSynced damages the manifest of a store that has no mark beside it.
func TestCommitsSayWhatOfTheManifestWasSynced(t *testing.T) {
	whole := newImage(t, false)
	whole.remove(t, markName)
	name := current(t, whole)
	content, _ := contents(t, whole.disk, name)
	for at := 0; at < len(content); at += int(stride(8)) {
		m := whole.copy()
		flipped := bytes.Clone(content)
		flipped[at] ^= 4
		m.set(t, name, flipped)
		if out := m.outcome(t, Options{}); !errors.Is(out.refused, ErrDamaged) || !strings.Contains(out.refused.Error(), name) {
			t.Errorf("flipped at %d of %d: %+v", at, len(content), out)
		}
		m.set(t, name, content[:at])
		if out := m.outcome(t, Options{}); !errors.Is(out.refused, ErrDamaged) || !strings.Contains(out.refused.Error(), name) {
			t.Errorf("cut at %d of %d: %+v", at, len(content), out)
		}
	}
}

// TestManifestThatWasBegunIsNotUsedWithoutMarker loses the marker of the manifest after a power cut in the middle of a
// change from one manifest to the next.
func TestManifestThatWasBegunIsNotUsedWithoutMarker(t *testing.T) {
	m := newImage(t, false)
	m.set(t, "MANIFEST-000900", []byte{1, 2, 3})
	m.removeMarkers(t, "manifest")
	out := m.outcome(t, Options{})
	if !errors.Is(out.refused, ErrDamaged) || strings.Contains(out.refused.Error(), "MANIFEST") {
		t.Errorf("%+v", out)
	}
	if out := m.outcome(t, Options{AcceptDataLoss: true}); out != (outcome{}) {
		t.Errorf("accepted: %+v", out)
	}
}

// A value may hold what looks like the beginnings of records of the log, too many to try each.
func TestForgedBeginningsOfRecordsCostNoTime(t *testing.T) {
	header := make([]byte, 19)
	m, log, content := forgedImage(t, func(num uint64) string {
		binary.LittleEndian.PutUint16(header[4:], 25000)
		header[6] = 9
		binary.LittleEndian.PutUint32(header[7:], uint32(num))
		return strings.Repeat(string(header), 6000)
	})
	content[bytes.Index(content, header)+20] ^= 1
	m.set(t, log, content)
	if out := m.outcome(t, Options{}); out != (outcome{}) {
		t.Errorf("%+v", out)
	}
}

// A directory may have a number as its name: a file that is missing in it is no damaged table.
func TestNumberOfADirectoryIsNoTable(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "/srv/20261122/store/LOCK", Err: fs.ErrNotExist}
	if err := damaged(missing); err != error(missing) {
		t.Errorf("%v", err)
	}
	table := &fs.PathError{Op: "open", Path: "/srv/20261122/store/000005.sst", Err: fs.ErrNotExist}
	var damage *DamageError
	if err := damaged(table); !errors.As(err, &damage) || damage.File != "000005.sst" {
		t.Errorf("%v", err)
	}
}
