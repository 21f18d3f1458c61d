package sqlitevfs

import (
	_ "github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/ext/fts5"
	_ "github.com/ncruces/go-sqlite3/ext/rtree"
	_ "github.com/ncruces/go-sqlite3/ext/vec1"
	_ "github.com/ncruces/go-sqlite3/vfs"
)
