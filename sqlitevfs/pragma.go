package sqlitevfs

import (
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// A verdict says whether a pragma works in a session, and how.
type verdict uint8

const (
	works     verdict = iota // as SQLite documents it
	turnOnly                 // works until the end of the session: the connection is closed then
	noEffect                 // is accepted and changes nothing
	isRefused                // fails with ErrRefused
	absent                   // there is no such form
)

// String returns the word for a verdict on the page about SQL.
func (v verdict) String() string {
	return [...]string{"works", "this turn", "no effect", "refused", "-"}[v]
}

// A pragmaRule says how a pragma works without and with an argument.
type pragmaRule struct {
	get, set verdict
	instead  string // runs in place of the form that has no effect, if that has a result
	why      string // reason of a refusal
}

const (
	answerMemory     = "the memory of a connection is bounded by the node's configuration"
	answerDeprecated = "it is deprecated in SQLite, and changes what other statements return"
	answerHost       = "it names a directory of the host"
)

// pragmaRules returns the rule of each pragma of SQLite. The page about SQL has the same table.
func pragmaRules() map[string]pragmaRule {
	read := pragmaRule{works, absent, "", ""}
	both := pragmaRule{works, works, "", ""}
	here := pragmaRule{works, turnOnly, "", ""}
	none := func(name string) pragmaRule { return pragmaRule{works, noEffect, "PRAGMA " + name, ""} }
	mute := pragmaRule{works, noEffect, "", ""}
	no := func(why string) pragmaRule { return pragmaRule{works, isRefused, "", why} }
	never := func(why string) pragmaRule { return pragmaRule{isRefused, isRefused, "", why} }
	checkpoint := pragmaRule{noEffect, noEffect, "SELECT 0 AS busy, -1 AS log, -1 AS checkpointed", ""}
	return map[string]pragmaRule{
		"analysis_limit":            here,
		"application_id":            both,
		"auto_vacuum":               here,
		"automatic_index":           here,
		"busy_timeout":              none("busy_timeout"),
		"cache_size":                here, // and is bounded
		"cache_spill":               mute,
		"case_sensitive_like":       here,
		"cell_size_check":           here,
		"checkpoint_fullfsync":      mute,
		"checksum_verification":     never("pages are checked by the store"),
		"collation_list":            read,
		"compile_options":           read,
		"count_changes":             no(answerDeprecated),
		"data_store_directory":      never(answerHost),
		"data_version":              read,
		"database_list":             read,
		"defer_foreign_keys":        both,
		"empty_result_callbacks":    no(answerDeprecated),
		"encoding":                  mute,
		"foreign_key_check":         both,
		"foreign_key_list":          both,
		"foreign_keys":              here, // outside transactions
		"freelist_count":            read,
		"full_column_names":         no(answerDeprecated),
		"fullfsync":                 mute,
		"function_list":             read,
		"hard_heap_limit":           no(answerMemory),
		"ignore_check_constraints":  here,
		"incremental_vacuum":        both,
		"index_info":                both,
		"index_list":                both,
		"index_xinfo":               both,
		"integrity_check":           both,
		"journal_mode":              none("journal_mode"),
		"journal_size_limit":        none("journal_size_limit"),
		"legacy_alter_table":        here,
		"locking_mode":              none("locking_mode"),
		"max_page_count":            no("the size of a database is bounded by the quota of its actor"),
		"mmap_size":                 none("mmap_size"),
		"module_list":               read,
		"optimize":                  both,
		"page_count":                read,
		"page_size":                 no("pages have 4,096 bytes"),
		"pragma_list":               read,
		"query_only":                no("a read-only transaction of database/sql does it"),
		"quick_check":               both,
		"read_uncommitted":          mute,
		"recursive_triggers":        here,
		"reverse_unordered_selects": here,
		"schema_version":            no("a wrong one corrupts the database"),
		"secure_delete":             here,
		"short_column_names":        no(answerDeprecated),
		"shrink_memory":             read,
		"soft_heap_limit":           no(answerMemory),
		"synchronous":               mute,
		"table_info":                both,
		"table_list":                both,
		"table_xinfo":               both,
		"temp_store":                mute,
		"temp_store_directory":      never(answerHost),
		"threads":                   none("threads"),
		"trusted_schema":            no("what a schema may call is fixed"),
		"user_version":              both,
		"wal_autocheckpoint":        none("wal_autocheckpoint"),
		"wal_checkpoint":            checkpoint,
		"writable_schema":           no("a wrong schema corrupts the database"),
	}
}

// pragma decides about a pragma; arg is "" if it has none. SQLite does not distinguish an empty
// argument from none; an empty one means off or 0 and is harmless with each of them.
func (a *authorizer) pragma(name, arg string) sqlite3.AuthorizerReturnCode {
	if a.watching {
		a.saw.pragma = true
		a.saw.checks = name == "integrity_check" || name == "quick_check"
	}
	if a.rules == nil {
		a.rules = pragmaRules()
	}
	rule, known := a.rules[name]
	if !known {
		return sqlite3.AUTH_IGNORE // as SQLite does
	}
	v := rule.get
	what := "PRAGMA " + name
	if arg != "" {
		v = rule.set
		what += " = " + arg
		switch name {
		case "foreign_keys":
			return a.takeOver(runForeignKeys, onOff(arg))
		case "cache_size":
			if limit := a.cacheLimit(); cacheBytes(arg) > limit {
				return a.deny(what,
					"at most "+strconv.FormatInt(limit>>10, 10)+" KiB (-"+strconv.FormatInt(limit>>10, 10)+")")
			}
		}
	}
	switch v {
	case turnOnly:
		a.stain("PRAGMA " + name)
	case noEffect:
		if a.watching {
			a.saw.instead = rule.instead
		}
		return sqlite3.AUTH_IGNORE
	case isRefused:
		return a.deny(what, rule.why)
	}
	return sqlite3.AUTH_OK
}

func (a *authorizer) cacheLimit() int64 {
	if a.maxCache > 0 {
		return a.maxCache
	}
	return DefaultConnMemory / 2
}

// cacheBytes returns how many bytes a cache_size means: pages, or KiB if it is negative. A text
// that is not a number returns too many.
func cacheBytes(arg string) int64 {
	const most = 1 << 62
	n, err := parseInt(arg, 32)
	switch {
	case err != nil:
		return most
	case n < 0:
		return -n << 10
	}
	return n * PageSize
}

// parseInt reads an integer as SQLite does: a leading zero does not make it octal.
func parseInt(arg string, bits int) (int64, error) {
	if digits, found := strings.CutPrefix(strings.ToLower(arg), "0x"); found {
		return strconv.ParseInt(digits, 16, bits)
	}
	return strconv.ParseInt(arg, 10, bits)
}

// onOff reads a switch as SQLite does.
func onOff(arg string) string {
	switch strings.ToLower(arg) {
	case "on", "yes", "true", "extra", "full":
		return "on"
	}
	if n, err := parseInt(arg, 64); err == nil && n&0xff != 0 {
		return "on"
	}
	return "off"
}

// setForeignKeys switches the check of foreign keys. The pragma cannot do that in a transaction,
// and a session is one.
func (c *conn) setForeignKeys(on bool) error {
	const why = "PRAGMA foreign_keys"
	_, err := c.db.Config(sqlite3.DBCONFIG_ENABLE_FKEY, on)
	if on && c.stained == why {
		c.stained = ""
	}
	if !on && c.stained == "" {
		c.stained = why
	}
	return err
}

// unguard switches off the owner's foreign keys and triggers, which must not run while the runtime
// changes reserved tables. It does nothing if the database has none, because after the switch
// SQLite compiles all statements again.
func (c *conn) unguard() error {
	internal := c.auth.internal
	c.auth.internal = true
	defer func() { c.auth.internal = internal }()
	if c.guards == nil {
		s, _, err := c.db.PrepareFlags("SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' OR sql LIKE '%references%'", sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return err
		}
		c.guards = s
	}
	has := c.guards.Step()
	if err := c.guards.Reset(); err != nil || !has {
		return err
	}
	return c.enforce(false)
}

// enforce switches foreign keys and triggers.
func (c *conn) enforce(on bool) error {
	for _, what := range []sqlite3.DBConfig{sqlite3.DBCONFIG_ENABLE_FKEY, sqlite3.DBCONFIG_ENABLE_TRIGGER} {
		if _, err := c.db.Config(what, on); err != nil {
			return err
		}
	}
	c.unguarded = !on
	return nil
}
