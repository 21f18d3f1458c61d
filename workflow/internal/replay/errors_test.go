package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// wordyError is an error of a user's with more metadata than is stored.
type wordyError struct{ metadata map[string]string }

func (e *wordyError) Error() string                    { return "wordy" }
func (e *wordyError) ErrorCode() string                { return "conflict" }
func (e *wordyError) ErrorMetadata() map[string]string { return e.metadata }

func TestMetadataOfAnyErrorIsStoredWithinBounds(t *testing.T) {
	e := &wordyError{map[string]string{"": "x", "long": strings.Repeat("x", maxMetadataValue+1), strings.Repeat("k", maxMetadataKey+1): "x"}}
	for i := range 2 * maxMetadata {
		e.metadata[fmt.Sprint("key ", i)] = "v"
	}
	f := new(Program).failureOf(fmt.Errorf("around it: %w", e))
	if len(f.Metadata) != maxMetadata || f.Metadata["long"] != "" || f.Code != "conflict" || f.Own != "wordy" || f.Message != "around it: wordy" {
		t.Errorf("%+v", f)
	}
	e.metadata["key 0"] = "changed"
	errorIf(t, f.Metadata["key 0"] != "v", "the metadata is the user's own")
	if f = new(Program).failureOf(e); f.Own != "" {
		t.Errorf("an error that stands alone has the text %q besides", f.Own)
	}
	if f = new(Program).failureOf(errors.New("no")); f.Own != "" || f.Metadata != nil {
		t.Errorf("%+v", f)
	}
}
