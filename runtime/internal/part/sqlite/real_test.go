package sqlite

import (
	"encoding/json"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestARealNumberStaysOneInJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		real float64
		want string
	}{{1, "1.0"}, {0, "0.0"}, {-3, "-3.0"}, {1.5, "1.5"}, {1e14, "100000000000000.0"}, {1e15, "1e15"}, {1e21, "1e21"}, {0.1, "0.1"}} {
		v, _, err := sqlValue(c.real, host.JSON)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil || string(text) != c.want {
			t.Errorf("%g stands in JSON as %s (%v), want %s", c.real, text, err, c.want)
		}
		back, err := sqlArgument(json.Number(text))
		if err != nil || back != c.real {
			t.Errorf("%s comes back as %T %v (%v)", text, back, back, err)
		}
	}
}
