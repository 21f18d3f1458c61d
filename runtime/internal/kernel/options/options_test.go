package options

import (
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestValidateNamesEveryFaultAtOnce(t *testing.T) {
	o := Options{MaxAwake: -1, TurnGrace: -1, Limits: host.Limits{StateBytes: -1},
		Behaviors: []*host.Behavior{{Type: "room"}, {Type: "room"}}}
	o.EnsureDefaults()
	err := o.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"Options.Store is nil", "Options.MaxAwake is negative", "Options.TurnGrace is negative",
		"Options.Limits.StateBytes is negative", `actor type "room" is given twice`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestZeroOptionsGetTheirDefaults(t *testing.T) {
	o := Options{MaxAwake: 7}
	o.EnsureDefaults()
	if o.Namespace != "default" || o.IdleTimeout != DefaultIdleTimeout || o.MaxAwake != 7 || o.MaxAwakeBytes != DefaultMaxAwakeBytes ||
		o.Logger == nil || o.Limits.TurnTimeout == 0 {
		t.Errorf("%+v", o)
	}
}
