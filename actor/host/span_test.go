package host

import "testing"

func TestFlagsThatNoVersionDefinesAreNotPassedOn(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for flags, want := range map[string]string{"00": "00", "01": "01", "02": "00", "fe": "00", "ff": "01"} {
		got := ParseSpan(parent + flags).String()
		errorIf(t, got != parent+want, "the flags %s are passed on as %q", flags, got)
	}
}
