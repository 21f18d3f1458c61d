package sqlitevfs

// A Migration is one step of a schema, applied once, in order.
type Migration struct {
	Name string // unique; what errors and the table cairn_migration show
	SQL  string // one or more statements
}

// Fingerprint identifies a list of migrations: names and texts, in order.
func Fingerprint(ms []Migration) [16]byte { panic("seam") }

// Pending returns those of ms that a database with metadata m lacks, or a *MigrationError if what was applied is not the
// beginning of ms, as far as the metadata tells.
func (m Metadata) Current(ms []Migration) bool { panic("seam") }

// Migrate applies those of ms that the database lacks, and returns their names. The error is a *MigrationError: one of them
// failed, or what was applied before is not the beginning of ms. Then the session has to be rolled back.
func (s *Session) Migrate(ms []Migration) (applied []string, err error) { panic("seam") }

// A MigrationError says why a database cannot be brought to a list of migrations.
type MigrationError struct {
	Name   string // of the migration
	Reason string
	Err    error // of SQLite; may be nil
}

func (e *MigrationError) Error() string { panic("seam") }

// Unwrap returns the error of SQLite.
func (e *MigrationError) Unwrap() error { return e.Err }
