package runtime

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/BurntSushi/toml"
)

// config is the TOML file that --config names. Flags go before it, and CAIRN_TOKEN before its token.
type config struct {
	Listen         string   `toml:"listen"`
	Data           string   `toml:"data"`
	Namespace      string   `toml:"namespace"`
	Token          string   `toml:"token"`
	TokenFile      string   `toml:"token_file"`
	AllowedOrigins []string `toml:"allowed_origins"`
	NATS           struct {
		Listen      string `toml:"listen"`
		URL         string `toml:"url"`
		Credentials string `toml:"credentials"`
		JetStream   bool   `toml:"jetstream"`
		Root        string `toml:"root"`
	} `toml:"nats"`
	Storage struct {
		NoSync       bool  `toml:"no_sync"`
		PlainCommit  bool  `toml:"plain_commit"`
		CacheBytes   int64 `toml:"cache_bytes"`
		MinFreeBytes int64 `toml:"min_free_bytes"`
	} `toml:"storage"`
	Actors struct {
		MaxAwake      int   `toml:"max_awake"`
		MaxAwakeBytes int64 `toml:"max_awake_bytes"`
		IdleTimeout   span  `toml:"idle_timeout"`
		TurnTimeout   span  `toml:"turn_timeout"`
		DrainTimeout  span  `toml:"drain_timeout"`
	} `toml:"actors"`
	SQL struct {
		MaxOpen    int   `toml:"max_open"`
		MaxMemory  int64 `toml:"max_memory"`
		ConnMemory int64 `toml:"conn_memory"`
		CacheBytes int64 `toml:"cache_bytes"`
		TurnBytes  int64 `toml:"turn_bytes"`
		Temporary  int64 `toml:"temporary"`
		IdleTime   span  `toml:"idle_time"`
	} `toml:"sql"`
}

// readConfig reads a configuration file. A key that it does not know is an error, because a misspelt setting that does
// nothing is worse than none.
func readConfig(path string) (config, error) {
	var c config
	meta, err := toml.DecodeFile(path, &c)
	if err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			return c, fmt.Errorf("configuration %s: line %d: %s", path, syntax.Position.Line, syntax.Message)
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
	if c.Storage.MinFreeBytes < 0 {
		return c, fmt.Errorf("configuration %s: storage.min_free_bytes is negative", path)
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

// apply puts what the file says into o.
func (c *config) apply(o *Options) {
	o.Listen, o.Dir = or(c.Listen, o.Listen), or(c.Data, o.Dir)
	o.Namespace, o.Token, o.AllowedOrigins = c.Namespace, c.Token, c.AllowedOrigins
	o.NATSListen, o.NATSURL, o.NATSCredentials = c.NATS.Listen, c.NATS.URL, c.NATS.Credentials
	o.NATSJetStream, o.NATSRoot = c.NATS.JetStream, c.NATS.Root
	o.NoSync, o.PlainCommit = c.Storage.NoSync, c.Storage.PlainCommit
	o.CacheBytes, o.MinFreeBytes = c.Storage.CacheBytes, uint64(c.Storage.MinFreeBytes)
	o.MaxAwake, o.MaxAwakeBytes = c.Actors.MaxAwake, c.Actors.MaxAwakeBytes
	o.SQL = SQLOptions{
		MaxOpen: c.SQL.MaxOpen, MaxMemory: c.SQL.MaxMemory, ConnMemory: c.SQL.ConnMemory, CacheBytes: c.SQL.CacheBytes,
		TurnBytes: c.SQL.TurnBytes, Temporary: c.SQL.Temporary, IdleTime: c.SQL.IdleTime.d,
	}
	o.IdleTimeout, o.Limits.TurnTimeout, o.DrainTimeout = c.Actors.IdleTimeout.d, c.Actors.TurnTimeout.d, c.Actors.DrainTimeout.d
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
