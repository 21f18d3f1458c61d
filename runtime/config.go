package runtime

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/node"
)

// config is the TOML file that --config names. Flags override it, and CAIRN_TOKEN overrides its
// token.
type config struct {
	Listen         string   `toml:"listen"`
	PprofListen    string   `toml:"pprof_listen"`
	Data           string   `toml:"data"`
	Namespace      string   `toml:"namespace"`
	Token          string   `toml:"token"`
	TokenFile      string   `toml:"token_file"`
	AllowedOrigins []string `toml:"allowed_origins"`
	Memory         size     `toml:"memory"`
	NATS           struct {
		Listen      string `toml:"listen"`
		URL         string `toml:"url"`
		Credentials string `toml:"credentials"`
		JetStream   bool   `toml:"jetstream"`
		Root        string `toml:"root"`
	} `toml:"nats"`
	Storage struct {
		NoSync        bool `toml:"no_sync"`
		PlainCommit   bool `toml:"plain_commit"`
		CacheBytes    size `toml:"cache_bytes"`
		MemTableBytes size `toml:"memtable_bytes"`
		MinFreeBytes  size `toml:"min_free_bytes"`
	} `toml:"storage"`
	Actors struct {
		MaxAwake        int  `toml:"max_awake"`
		MaxAwakeBytes   size `toml:"max_awake_bytes"`
		MaxWriteBytes   size `toml:"max_write_bytes"`
		MaxMailboxBytes size `toml:"max_mailbox_bytes"`
		MaxEventBytes   size `toml:"max_event_bytes"`
		IdleTimeout     span `toml:"idle_timeout"`
		TurnTimeout     span `toml:"turn_timeout"`
		QueryTimeout    span `toml:"query_timeout"`
		DrainTimeout    span `toml:"drain_timeout"`
	} `toml:"actors"`
	SQL struct {
		MaxOpen      int  `toml:"max_open"`
		MaxMemory    size `toml:"max_memory"`
		ConnMemory   size `toml:"conn_memory"`
		CacheBytes   size `toml:"cache_bytes"`
		TurnBytes    size `toml:"turn_bytes"`
		Temporary    size `toml:"temporary"`
		MaxTemporary size `toml:"max_temporary"`
		MaxLength    size `toml:"max_length"`
		IdleTime     span `toml:"idle_time"`
	} `toml:"sql"`
	Traces struct {
		Off       bool    `toml:"off"`
		PerSecond int     `toml:"per_second"`
		Share     float64 `toml:"share"`
		Slow      span    `toml:"slow"`
		MaxAge    span    `toml:"max_age"`
		MaxBytes  size    `toml:"max_bytes"`

		Types map[string]struct {
			PerSecond *int64   `toml:"per_second"`
			Share     *float64 `toml:"share"`
			Slow      *span    `toml:"slow"`
		} `toml:"types"`
	} `toml:"traces"`
	Usage struct {
		Off bool `toml:"off"`
	} `toml:"usage"`
	Audit struct {
		MaxAge span `toml:"max_age"`
	} `toml:"audit"`
	Limits  map[string]typeLimits `toml:"limits"`
	Gateway struct {
		MemoryBytes size `toml:"memory_bytes"`
		BodyBytes   size `toml:"body_bytes"`
		Connections int  `toml:"connections"`
		Streams     int  `toml:"streams"`
	} `toml:"gateway"`
	Dashboard struct {
		Off bool `toml:"off"`
	} `toml:"dashboard"`
}

// readConfig reads a configuration file. An unknown key is an error, because a misspelt setting
// without effect is worse than none.
func readConfig(path string) (config, error) {
	var c config
	meta, err := toml.DecodeFile(path, &c)
	if err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			key := ""
			if syntax.LastKey != "" {
				key = syntax.LastKey + ": "
			}
			return c, fmt.Errorf("configuration %s: line %d: %s%s", path, syntax.Position.Line, key, syntax.Message)
		}
		return c, fmt.Errorf("configuration %s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		names := make([]string, len(unknown))
		for i, k := range unknown {
			names[i] = k.String()
		}
		return c, fmt.Errorf("configuration %s: unknown keys: %s", path, strings.Join(names, ", "))
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("configuration %s: %w", path, err)
	}
	if meta.IsDefined("token") && c.Token == "" {
		return c, fmt.Errorf("configuration %s: token is empty; leave it out to ask for none", path)
	}
	if c.TokenFile != "" {
		if c.Token != "" {
			return c, fmt.Errorf("configuration %s: token and token_file exclude each other", path)
		}
		b, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return c, fmt.Errorf("configuration %s: token_file: %w", path, err)
		}
		if c.Token = strings.TrimSpace(string(b)); c.Token == "" {
			return c, fmt.Errorf("configuration %s: token_file %s is empty", path, c.TokenFile)
		}
	}
	return c, nil
}

// check returns an error for an invalid value, with its path in the file.
func (c *config) check() error {
	if err := checkNegative("", reflect.ValueOf(c).Elem()); err != nil {
		return err
	}
	for _, least := range []struct {
		path string
		n    size
		min  int64
	}{{"memory", c.Memory, MinMemory}, {"storage.memtable_bytes", c.Storage.MemTableBytes, minMemTables}} {
		if least.n != 0 && int64(least.n) < least.min {
			return fmt.Errorf("%s is %d; it must be %d or more", least.path, least.n, least.min)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		l := c.Limits[name]
		if err := node.CheckLimits(l.limits()); err != nil {
			return fmt.Errorf("limits.%s.%w", name, err)
		}
	}
	return nil
}

// checkNegative returns an error for a negative number or span in the part of the file at path.
func checkNegative(path string, part reflect.Value) error {
	for i := range part.NumField() {
		name, f := path+part.Type().Field(i).Tag.Get("toml"), part.Field(i)
		switch v := f.Interface().(type) {
		case span:
			if v.d < 0 {
				return fmt.Errorf("%s is %v; it must not be negative", name, v.d)
			}
		case int, size:
			if f.Int() < 0 {
				return fmt.Errorf("%s is %d; it must not be negative", name, f.Int())
			}
		default:
			if f.Kind() == reflect.Struct {
				if err := checkNegative(name+".", f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// apply copies the file's settings into o.
func (c *config) apply(o *Options) {
	o.Listen, o.Dir = or(c.Listen, o.Listen), or(c.Data, o.Dir)
	o.PprofListen = c.PprofListen
	o.Namespace, o.Token, o.AllowedOrigins = c.Namespace, c.Token, c.AllowedOrigins
	o.NATSListen, o.NATSURL, o.NATSCredentials = c.NATS.Listen, c.NATS.URL, c.NATS.Credentials
	o.NATSJetStream, o.NATSRoot = c.NATS.JetStream, c.NATS.Root
	o.NoSync, o.PlainCommit = c.Storage.NoSync, c.Storage.PlainCommit
	o.Memory, o.CacheBytes, o.MemTableBytes = int64(c.Memory), int64(c.Storage.CacheBytes),
		int64(c.Storage.MemTableBytes)
	o.MinFreeBytes = uint64(c.Storage.MinFreeBytes)
	o.MaxAwake, o.MaxAwakeBytes = c.Actors.MaxAwake, int64(c.Actors.MaxAwakeBytes)
	o.MaxWriteBytes, o.MaxMailboxBytes = int64(c.Actors.MaxWriteBytes), int64(c.Actors.MaxMailboxBytes)
	o.MaxEventBytes = int64(c.Actors.MaxEventBytes)
	o.SQL = SQLOptions{
		MaxOpen: c.SQL.MaxOpen, MaxMemory: int64(c.SQL.MaxMemory), ConnMemory: int64(c.SQL.ConnMemory), CacheBytes: int64(c.SQL.CacheBytes),
		TurnBytes: int64(c.SQL.TurnBytes), Temporary: int64(c.SQL.Temporary), MaxTemporary: int64(c.SQL.MaxTemporary),
		MaxLength: int(c.SQL.MaxLength), IdleTime: c.SQL.IdleTime.d,
	}
	o.Usage = UsageOptions{Off: c.Usage.Off}
	o.Traces = TraceOptions{
		Off: c.Traces.Off, PerSecond: int64(c.Traces.PerSecond), Share: c.Traces.Share, Slow: c.Traces.Slow.d, MaxAge: c.Traces.MaxAge.d, MaxBytes: int64(c.Traces.MaxBytes),
	}
	for name, t := range c.Traces.Types {
		if o.Traces.Types == nil {
			o.Traces.Types = make(map[string]TraceRule)
		}
		rule := TraceRule{PerSecond: t.PerSecond, Share: t.Share}
		if t.Slow != nil {
			rule.SlowMS = new(t.Slow.d.Milliseconds())
		}
		o.Traces.Types[name] = rule
	}
	o.AuditMaxAge = c.Audit.MaxAge.d
	for name, l := range c.Limits {
		if o.TypeLimits == nil {
			o.TypeLimits = make(map[string]actor.Limits)
		}
		o.TypeLimits[name] = l.limits()
	}
	o.Gateway = GatewayLimits{
		MemoryBytes: int64(c.Gateway.MemoryBytes), BodyBytes: int64(c.Gateway.BodyBytes), Connections: c.Gateway.Connections,
		Streams: c.Gateway.Streams,
	}
	o.NoDashboard = c.Dashboard.Off
	o.IdleTimeout, o.DrainTimeout = c.Actors.IdleTimeout.d, c.Actors.DrainTimeout.d
	o.Limits.TurnTimeout, o.Limits.QueryTimeout = c.Actors.TurnTimeout.d, c.Actors.QueryTimeout.d
}

// typeLimits are the limits of one actor type in a configuration file.
type typeLimits struct {
	StorageBytes    size    `toml:"storage_bytes"`
	WriteSetBytes   size    `toml:"write_set_bytes"`
	ValueBytes      size    `toml:"value_bytes"`
	StateBytes      size    `toml:"state_bytes"`
	MailboxCount    int     `toml:"mailbox_count"`
	MailboxBytes    size    `toml:"mailbox_bytes"`
	TurnTimeout     span    `toml:"turn_timeout"`
	QueryTimeout    span    `toml:"query_timeout"`
	CallRate        float64 `toml:"call_rate"`
	CallBurst       int     `toml:"call_burst"`
	Connections     int     `toml:"connections"`
	ConnectionBytes size    `toml:"connection_bytes"`
	ConnectionGrace span    `toml:"connection_grace"`
	EventHistory    int     `toml:"event_history"`
	SendAttempts    int     `toml:"send_attempts"`
	TaskGrace       span    `toml:"task_grace"`

	SQLMemoryBytes    size `toml:"sql_memory_bytes"`
	SQLTemporaryBytes size `toml:"sql_temporary_bytes"`
	SQLTurnBytes      size `toml:"sql_turn_bytes"`
	SQLValueBytes     size `toml:"sql_value_bytes"`
}

// limits returns l as actor.Limits.
func (l *typeLimits) limits() actor.Limits {
	return actor.Limits{
		StorageBytes: int64(l.StorageBytes), WriteSetBytes: int(l.WriteSetBytes), ValueBytes: int(l.ValueBytes),
		StateBytes: int(l.StateBytes), MailboxCount: l.MailboxCount, MailboxBytes: int64(l.MailboxBytes),
		TurnTimeout: l.TurnTimeout.d, QueryTimeout: l.QueryTimeout.d, CallRate: l.CallRate, CallBurst: l.CallBurst, Connections: l.Connections,
		ConnectionBytes: int(l.ConnectionBytes), ConnectionGrace: l.ConnectionGrace.d, EventHistory: l.EventHistory,
		SendAttempts: l.SendAttempts, TaskGrace: l.TaskGrace.d,
		SQLMemoryBytes: int64(l.SQLMemoryBytes), SQLTemporaryBytes: int64(l.SQLTemporaryBytes), SQLTurnBytes: int64(l.SQLTurnBytes),
		SQLValueBytes: int(l.SQLValueBytes),
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// size is a number of bytes in a configuration file: 536870912, or "512MiB".
type size int64

// UnmarshalTOML implements toml.Unmarshaler.
func (s *size) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		if *s = size(v); v >= 0 {
			return nil
		}
	case string:
		n, err := host.ParseSize(v)
		*s = size(n)
		return err
	}
	return fmt.Errorf("%v is not a number of bytes such as 536870912 or \"512MiB\"", v)
}
