package kvfile

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Schema is the schema of exported databases. Table entry has every entry. The other two are those
// of Codebolt and go-store, and have the entries that fit into them.
const Schema = `CREATE TABLE entry (
  key BLOB PRIMARY KEY,    -- the stored form of the key: entries sort as in the store
  name TEXT NOT NULL,      -- the key as an array in JSON
  encoding TEXT NOT NULL,  -- json, text, bytes, u64, integer, cbor, typed or v8
  value NOT NULL,          -- TEXT for json and text, otherwise BLOB: the bytes that are stored
  updated_at INTEGER NOT NULL, -- Unix milliseconds
  expires_at INTEGER       -- Unix milliseconds; NULL for never
) WITHOUT ROWID;
CREATE TABLE kv_store (
  instance_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT, updated_at INTEGER NOT NULL,
  PRIMARY KEY (instance_id, namespace, key)
);
CREATE TABLE kv (
  grp TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, expires_at INTEGER,
  PRIMARY KEY (grp, key)
);`

// Insert adds entries to a database with the tables of Schema.
func Insert(ctx context.Context, db *sql.DB, entries []kv.Entry) error {
	for i := range entries {
		if err := insert(ctx, db, &entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func insert(ctx context.Context, db *sql.DB, e *kv.Entry) error {
	name, err := e.Key.MarshalJSON()
	if err != nil {
		return err
	}
	packed, err := tuple.Tuple(e.Key).Pack()
	if err != nil {
		return err
	}
	v, err := stored(&e.Value)
	if err != nil {
		return host.Errorf(host.Internal, "the entry of the key %s: %s", name, err)
	}
	var data any = v.Data
	if v.Encoding == host.EncodedJSON || v.Encoding == host.EncodedText {
		data = string(v.Data)
	} else if len(v.Data) == 0 {
		data = []byte{} // and not NULL
	}
	var expires any
	if !e.Expires.IsZero() {
		expires = e.Expires.UnixMilli()
	}
	if _, err = db.ExecContext(ctx, "INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
		packed, string(name), v.Encoding.String(), data, e.Updated.UnixMilli(), expires); err != nil {
		return err
	}
	parts := texts(e.Key)
	switch {
	case len(parts) == 4 && parts[0] == codeboltPart && v.Encoding == host.EncodedJSON:
		_, err = db.ExecContext(ctx, "INSERT INTO kv_store VALUES (?1, ?2, ?3, ?4, ?5)",
			parts[1], parts[2], parts[3], data, e.Updated.UnixMilli())
	case v.Encoding == host.EncodedText:
		if group, ok := joinGroup(parts); ok {
			_, err = db.ExecContext(ctx, "INSERT INTO kv VALUES (?1, ?2, ?3, ?4)", group,
				parts[len(parts)-1], data, expires)
		}
	}
	return err
}

// texts returns the parts of a key, or nil if one is not a string.
func texts(key kv.Key) []string {
	parts := make([]string, len(key))
	for i, part := range key {
		text, is := part.(string)
		if !is {
			return nil
		}
		parts[i] = text
	}
	return parts
}

// has reports whether a table or view has a column; "" is any.
func has(ctx context.Context, db *sql.DB, table, column string) (found bool, err error) {
	err = db.QueryRowContext(ctx,
		"SELECT count(*) > 0 FROM pragma_table_info(?1) WHERE ?2 IN (name, '')", table, column).Scan(&found)
	return found, err
}

// demand returns an error if a table lacks one of the columns.
func demand(ctx context.Context, db *sql.DB, table string, columns ...string) error {
	var missing []string
	for _, column := range columns {
		found, err := has(ctx, db, table, column)
		if err != nil {
			return err
		}
		if !found {
			missing = append(missing, column)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the database has no table %s with the columns %s: %s is missing",
			table, strings.Join(columns, ", "), strings.Join(missing, ", "))
	}
	return nil
}

// text reads a column that must be text.
func text(column string, v any) (string, error) {
	if s, is := v.(string); is {
		return s, nil
	}
	return "", host.Errorf(host.InvalidArgument, "the column %s is not text", column).With("field", column)
}

// expiry reads a column of Unix milliseconds, which may be NULL.
func expiry(v any) (time.Time, error) {
	switch v := v.(type) {
	case nil:
		return time.Time{}, nil
	case int64:
		return time.UnixMilli(v).UTC(), nil
	}
	return time.Time{}, host.Errorf(host.InvalidArgument,
		"the column expires_at is not an integer").With("field", "expires_at")
}
