package kvfile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// codeboltPart is the first part of the keys of Codebolt.
const codeboltPart = "cb"

// Database ranges over the table entry of an exported database.
func Database(ctx context.Context, db *sql.DB) iter.Seq2[Item, error] {
	return table(ctx, db, "entry", []string{"key", "encoding", "value", "expires_at"}, "key",
		func(v []any) (e kv.Entry, err error) {
			packed, is := v[0].([]byte)
			parts, unpackErr := tuple.Unpack(packed)
			if e.Key = kv.Key(parts); !is || unpackErr != nil {
				return e, host.Errorf(host.InvalidArgument, "the column key is not a key").With("field", "key")
			}
			if _, err := e.Key.Entry(); err != nil {
				return e, member("key", err)
			}
			word, _ := v[1].(string)
			encoding, known := host.ParseEncoding(word)
			if !known {
				return e, host.Errorf(host.InvalidArgument, "%.40q is not an encoding", word).With("field", "encoding")
			}
			if e.Value, err = content(encoding, v[2]); err != nil {
				return e, err
			}
			e.Expires, err = expiry(v[3])
			return e, err
		})
}

// content reads a column value: text or bytes.
func content(encoding host.Encoding, column any) (kv.Value, error) {
	var data []byte
	switch v := column.(type) {
	case string:
		data = []byte(v)
	case []byte:
		data = v
	default:
		return kv.Value{},
			host.Errorf(host.InvalidArgument, "the column value is neither text nor bytes").With("field", "value")
	}
	v, err := value.Stored(encoding, data)
	if err != nil {
		return kv.Value{}, member("value", err)
	}
	return kv.Value{Encoding: v.Encoding, Data: v.Data}, nil
}

// Codebolt ranges over the table kv_store of a database of Codebolt: the keys are ("cb", instance,
// namespace, key), and the values JSON.
func Codebolt(ctx context.Context, db *sql.DB) iter.Seq2[Item, error] {
	return table(ctx, db, "kv_store", []string{"instance_id", "namespace", "key", "value"},
		"instance_id, namespace, key", func(v []any) (e kv.Entry, err error) {
			e.Key = kv.Key{codeboltPart}
			for i, column := range []string{"instance_id", "namespace", "key"} {
				part, err := text(column, v[i])
				if err != nil {
					return e, err
				}
				e.Key = append(e.Key, part)
			}
			if _, err := e.Key.Entry(); err != nil {
				return e, member("key", err)
			}
			e.Value, err = content(host.EncodedJSON, v[3])
			return e, err
		})
}

// CodeboltInstance reads the file of an instance of Codebolt. The key ("cb", instance) has the
// object of the file without recordCount and namespaces, which Codebolt counts anew. The key ("cb",
// true, name, instance) finds the instance by its name, and has null.
func CodeboltInstance(document []byte) ([]kv.Entry, error) {
	var instance map[string]json.RawMessage
	if err := json.Unmarshal(document, &instance); err != nil || instance == nil {
		return nil, errors.New("is not a JSON object")
	}
	if err := host.CheckJSON(document, nil); err != nil {
		return nil, err
	}
	var id, name string
	if json.Unmarshal(instance["id"], &id) != nil || id == "" || !utf8.Valid(document) {
		return nil, host.Errorf(host.InvalidArgument, "has no id, which is a string").With("field", "id")
	}
	if raw, there := instance["name"]; there && json.Unmarshal(raw, &name) != nil {
		return nil, host.Errorf(host.InvalidArgument, "has a name that is not a string").With("field", "name")
	}
	delete(instance, "recordCount")
	delete(instance, "namespaces")
	rest, err := json.Marshal(instance)
	if err != nil {
		return nil, err
	}
	v, err := content(host.EncodedJSON, rest)
	return []kv.Entry{
		{Key: kv.Key{codeboltPart, id}, Value: v},
		{Key: kv.Key{codeboltPart, true, name, id}, Value: kv.JSON([]byte("null"))},
	}, err
}

// GoStore ranges over the table kv of a database of go-store: the keys are (group, key), or
// (namespace, group, key) if the group belongs to a namespace, and the values text.
func GoStore(ctx context.Context, db *sql.DB) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		expires := "expires_at"
		switch found, err := has(ctx, db, "kv", expires); {
		case err != nil:
			yield(Item{}, err)
			return
		case !found: // of a version that had no time to live
			expires = "NULL"
		}
		table(ctx, db, "kv", []string{"grp", "key", "value", expires}, "grp, key",
			func(v []any) (e kv.Entry, err error) {
				group, err := text("grp", v[0])
				if err != nil {
					return e, err
				}
				key, err := text("key", v[1])
				if err != nil {
					return e, err
				}
				e.Key = append(splitGroup(group), key)
				if _, err := e.Key.Entry(); err != nil {
					return e, member("key", err)
				}
				if e.Value, err = content(host.EncodedText, v[2]); err != nil {
					return e, err
				}
				e.Expires, err = expiry(v[3])
				return e, err
			})(yield)
	}
}

// splitGroup returns a group of go-store as parts of a key: tenant-42:config is the group config of
// the namespace tenant-42.
func splitGroup(group string) kv.Key {
	if namespace, rest, scoped := strings.Cut(group, ":"); scoped && isNamespace(namespace) {
		return kv.Key{namespace, rest}
	}
	return kv.Key{group}
}

// joinGroup returns the group that all parts of a key but the last make up; false if splitGroup
// would not make them.
func joinGroup(parts []string) (string, bool) {
	if len(parts) < 2 || len(parts) > 3 {
		return "", false
	}
	group := strings.Join(parts[:len(parts)-1], ":")
	return group, len(splitGroup(group)) == len(parts)-1 && splitGroup(group)[0] == parts[0]
}

// isNamespace reports whether a text is a namespace of go-store: ^[a-zA-Z0-9-]+$.
func isNamespace(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}
	return s != "" && !strings.ContainsFunc(s, other)
}

// table ranges over a table in the order of some columns. read makes an entry from the values of a
// row.
func table(ctx context.Context, db *sql.DB, name string, columns []string, order string,
	read func([]any) (kv.Entry, error)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var demanded []string
		for _, column := range columns {
			if column != "NULL" {
				demanded = append(demanded, column)
			}
		}
		if err := demand(ctx, db, name, demanded...); err != nil {
			yield(Item{}, err)
			return
		}
		rows, err := db.QueryContext(ctx,
			fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", strings.Join(columns, ", "), name, order))
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer rows.Close()
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for n := 1; rows.Next(); n++ {
			item := Item{At: fmt.Sprintf("row %d of %s", n, name)}
			if err = rows.Scan(into...); err == nil {
				item.Entry, err = read(values)
			}
			if err != nil {
				err = Located(item.At+", in the order of the keys", err)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Item{}, err)
		}
	}
}
