package keyspace

import "testing"

func BenchmarkAppendDataRow(b *testing.B) {
	buf := make([]byte, 0, 128)
	key := AppendQueueMessage(nil, 7)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendDataRow(buf[:0], testID, key, 0)
	}
}

func BenchmarkSplitRow(b *testing.B) {
	row := AppendDataRow(nil, testID, AppendQueueMessage(nil, 7), 0)
	b.ReportAllocs()
	for b.Loop() {
		SplitRow(row)
	}
}

func BenchmarkRowParse(b *testing.B) {
	row := AppendDataRow(nil, testID, AppendQueueMessage(nil, 7), 0)
	var r Row
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Parse(row); err != nil {
			b.Fatal(err)
		}
	}
}
