package host_test

import (
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestPositionsAreReadAsTheyAreWritten(t *testing.T) {
	const life = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"
	for _, p := range []host.Position{{}, {Sequence: 17}, {Life: life}, {Sequence: 1<<64 - 1, Life: life}} {
		got, err := host.ParsePosition(p.String())
		errorIf(t, err != nil || got != p, "%q: %+v, %v", p, got, err)
	}
	for _, bad := range []string{
		"", "@", "x", "-1", "+1", " 1", "1 ", "1.5", "18446744073709551616", "@" + life, "17@", "17@x", "17@" + life + "0",
		"17@0A3F6931-52B4-8A01-9C3E-5D0F2B7C8E14", "17@0a3f6931052b4-8a01-9c3e-5d0f2b7c8e14", "17@" + life + "@" + life,
	} {
		p, err := host.ParsePosition(bad)
		errorIf(t, err == nil || err.Code != host.InvalidArgument, "%q: %+v, %v", bad, p, err)
	}
}
