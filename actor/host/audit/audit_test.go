package audit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

func TestAReasonGoesThroughAHeader(t *testing.T) {
	for _, reason := range []string{"", "tidy up", "50 % über\r\nX: y\x00", "+%2B/", strings.Repeat("ü", audit.MaxReason)} {
		value := audit.FormatReason(reason)
		for i := range len(value) {
			if value[i] < ' ' || value[i] > '~' {
				t.Fatalf("%q has the value %q", reason, value)
			}
		}
		if got, fault := audit.ParseReason(value); got != reason || fault != nil {
			t.Errorf("%q is read as %q, %v", reason, got, fault)
		}
	}
	if got, fault := audit.ParseReason("für alle"); got != "für alle" || fault != nil {
		t.Errorf("%q, %v", got, fault)
	}
	for value, code := range map[string]host.Code{"%": host.InvalidArgument, "%zz": host.InvalidArgument,
		"%FF": host.InvalidArgument, strings.Repeat("a", audit.MaxReason+1): host.TooLarge} {
		if _, fault := audit.ParseReason(value); fault == nil || fault.Code != code || fault.Metadata["field"] != audit.Header {
			t.Errorf("%.10q: %v", value, fault)
		}
	}
}

func TestAReasonKeepsTheRestOfAnOrigin(t *testing.T) {
	if audit.Of(context.Background()) != nil {
		t.Error("a context without an origin has one")
	}
	first := &audit.Origin{Channel: "http", Principal: "ada"}
	ctx := audit.WithReason(audit.With(t.Context(), first), "why")
	if o := audit.Of(ctx); *o != (audit.Origin{Channel: "http", Principal: "ada", Reason: "why"}) || first.Reason != "" {
		t.Errorf("%+v", o)
	}
}
