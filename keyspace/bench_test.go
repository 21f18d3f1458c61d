package keyspace

import "testing"

func BenchmarkAppendDataRow(b *testing.B) {
	buf := make([]byte, 0, 128)
	key := QueueMessage.Append(nil, 7)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendDataRow(buf[:0], testID, key, 0)
	}
}

func BenchmarkSplitRow(b *testing.B) {
	row := AppendDataRow(nil, testID, QueueMessage.Append(nil, 7), 0)
	b.ReportAllocs()
	for b.Loop() {
		SplitRow(row)
	}
}

func BenchmarkParseRow(b *testing.B) {
	row := AppendDataRow(nil, testID, QueueMessage.Append(nil, 7), 0)
	b.ReportAllocs()
	for b.Loop() {
		_, err := ParseRow(row)
		must(b, err)
	}
}

func BenchmarkAppendKey(b *testing.B) {
	buf := make([]byte, 0, 128)
	for name, f := range map[string]func(){
		"number":   func() { buf = QueueMessage.Append(buf[:0], 7) },
		"item":     func() { buf = StreamItem.Append(buf[:0], "tokens", 7) },
		"pair":     func() { buf = Alarm.Append(buf[:0], "remind", "7") },
		"page":     func() { buf = SQLiteChunk.Append(buf[:0], SQLiteMain, 7) },
		"workflow": func() { buf = WorkflowMetadata.Append(buf[:0], 7) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

func BenchmarkParseKey(b *testing.B) {
	number, item := QueueMessage.Append(nil, 7), StreamItem.Append(nil, "tokens", 7)
	page, workflow := SQLiteChunk.Append(nil, SQLiteMain, 7), WorkflowMetadata.Append(nil, 7)
	for name, f := range map[string]func(){
		"number":   func() { QueueMessage.Parse(number) },
		"item":     func() { StreamItem.Parse(item) },
		"page":     func() { SQLiteChunk.Parse(page) },
		"workflow": func() { WorkflowMetadata.Parse(workflow) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
