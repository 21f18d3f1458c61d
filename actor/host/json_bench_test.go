package host_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// BenchmarkCheckJSON compares the check of a small input with decoding it.
func BenchmarkCheckJSON(b *testing.B) {
	text := []byte(`{"stamp":7,"to":"ada","tags":{"a":"1","b":"2"},"copy":[{"to":"bob"}]}`)
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		v := new(letter)
		for b.Loop() {
			if err := host.CheckJSON(text, v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(text, new(letter)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
