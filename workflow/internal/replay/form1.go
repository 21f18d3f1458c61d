package replay

import (
	"bytes"
	"slices"

	"github.com/cairn-run/cairn/workflow/internal/form1"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// cborNull is the result of an operation that ended and returned nothing.
var cborNull = []byte{0xF6}

// adopt turns records of form 1 into form 2, so that replay and display need only one form. Later
// rows, in form 2, take precedence over them, and new writes get later numbers.
func (im *image) adopt(about map[string]*form1.Metadata) error {
	var rows []form1.Record
	im.records = slices.DeleteFunc(im.records, func(rec record) bool {
		if rec.form == journal.Form1 {
			rows = append(rows, form1.Record{Loc: rec.loc, Value: rec.value})
		}
		return rec.form == journal.Form1
	})
	adopted, err := form1.Adopt(rows, about, im.names)
	if err != nil {
		return err
	}
	for _, rec := range adopted {
		im.records = append(im.records, record{im: im, loc: rec.Loc, form: journal.Form1, decoded: rec.Entry})
	}
	slices.SortStableFunc(im.records, func(a, b record) int { return bytes.Compare(a.loc, b.loc) })
	im.records = slices.CompactFunc(im.records, func(a, b record) bool { return bytes.Equal(a.loc, b.loc) })
	return nil
}

// number1 gives metadata of form 1 a number of form 2. It lasts as long as the image.
func (im *image) number1(id string, m *form1.Metadata) {
	if im.ids1 == nil {
		im.ids1 = make(map[uint32]string)
	}
	m.Number = im.nextID
	im.ids1[m.Number], im.metadatas[m.Number] = id, &m.Metadata
	im.nextID++
}

// decodeEntry decodes the value of an entry of either form. Payloads alias value. The key is for
// errors. An entry of form 1 has only the fields of its own value: form1.Adopt adds the rest.
func decodeEntry(key, value []byte) (Entry, error) {
	var e Entry
	form, err := journal.FormOf("entry", value)
	if err == nil {
		if form == journal.Form1 {
			e, err = form1.DecodeEntry(value)
		} else {
			err = journal.DecodeEntry(&e, value)
		}
	}
	if err != nil {
		return Entry{}, journal.Corrupt(key, err)
	}
	return e, nil
}

// decodeMetadata decodes the value of metadata of either form. Progress aliases value. The key is
// for errors.
func decodeMetadata(key, value []byte) (Metadata, error) {
	var m Metadata
	form, err := journal.FormOf("metadata", value)
	if err == nil {
		if form == journal.Form1 {
			var m1 form1.Metadata
			m1, err = form1.DecodeMetadata(value)
			m = m1.Metadata
		} else {
			err = journal.DecodeMetadata(&m, value)
		}
	}
	if err != nil {
		return Metadata{}, journal.Corrupt(key, err)
	}
	return m, nil
}
