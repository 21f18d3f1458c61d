package supervisor

import (
	"context"
	"io"

	"github.com/cairn-run/cairn/actor/host"
)

var _ host.Databases = (*Supervisor)(nil)

// ExportSQL implements host.Databases.
func (s *Supervisor) ExportSQL(ctx context.Context, addr host.Address, w io.Writer) error {
	return exportStored(ctx, s, addr, w)
}

// ImportSQL implements host.Databases.
func (s *Supervisor) ImportSQL(ctx context.Context, addr host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
	return sqliteIn(s).importSQL(ctx, s, addr, file, reason)
}
