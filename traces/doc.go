// Package traces keeps the spans of actors: it encodes them, stores them in the keyspace of each
// actor, reads them, and gives them to OpenTelemetry. It is the only package that imports
// OpenTelemetry.
//
// The nouns:
//
//   - A [Span] is one timed operation, as a plain value.
//   - A [Buffer] holds the spans of an awake actor until [Buffer.Flush] stores them as chunks. It
//     removes old chunks.
//   - [Read] selects stored spans and those of a buffer by time, trace, name or error, in pages.
//   - A [Group] is the spans of one resource. [AppendJSON] and [Protobuf] write groups as OTLP.
//   - [ParseJSON] reads the documents of AppendJSON.
//   - A [Provider] makes the spans that users add with the OpenTelemetry API. An [Active] is an
//     open span of the runtime, their parent. A [Processor] accepts spans of the OpenTelemetry SDK.
//   - An [Exporter] sends spans elsewhere; package collector has one.
//
// # Storage
//
// A chunk holds the spans that ended in the same hour, up to 96 KiB. Its key is
// keyspace.TraceChunk. The totals of an hour are in one more row, keyspace.TraceBucket, which is
// written with each chunk: bytes are exact without a scan, and the reader skips hours outside of
// its window.
//
// Each flush stores an open span that is new or changed as a partial record. The reader merges the
// records of a span. If the actor stopped before the span ended, the reader reports that it ended
// at the last flush that stored something.
//
// Times are Unix nanoseconds. The package reads no clock, except that of a [Provider] and the timer
// of an exporter.
package traces
