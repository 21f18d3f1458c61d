package sqlitevfs

// Metadata is what is kept about a database beside its pages.
type Metadata struct {
	// Pages is the length of the file, in pages.
	Pages uint32
	// Sequence grows by one with every commit that changes a page.
	Sequence uint64
	// Migrations is how many migrations were applied, and Fingerprint the [Fingerprint] of those.
	Migrations  uint32
	Fingerprint [16]byte
}

// ReadMetadata returns the metadata of a database, and false if there is no database.
func ReadMetadata(r Reader) (Metadata, bool, error) { panic("seam") }
