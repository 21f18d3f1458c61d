package traffic

import "testing"

func TestDefinitionsAreSound(t *testing.T) {
	for _, d := range Definitions() {
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", d.Type(), err)
		}
	}
}
