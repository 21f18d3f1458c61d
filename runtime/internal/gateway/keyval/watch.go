package keyval

import (
	"bytes"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// A watcher answers watches of a node.
type watcher struct{ kv.Watcher }

// keys answers GET api/watch.
func (w watcher) keys(r *kvrest.Request) error {
	params, err := r.Params("keys", "initial")
	if err != nil {
		return err
	}
	var c kv.Watching
	if c.Keys, err = watchedKeys(params); err != nil {
		return err
	}
	if c.Initial, err = flagOf(params, "initial", true); err != nil {
		return err
	}
	return w.watch(r, c, len(c.Keys))
}

func watchedKeys(params map[string]string) ([]kv.Key, error) {
	if params["keys"] == "" {
		return nil, kvrest.Wrong("keys", "Missing 'keys' query parameter")
	}
	return paramKeys(params["keys"], "keys")
}

// prefix answers GET api/watch/prefix. A limit bounds the first entries, not the changes.
func (w watcher) prefix(r *kvrest.Request) error {
	params, err := r.Params("prefix", "prefixes", "initial", "limit")
	if err != nil {
		return err
	}
	paths := params["prefix"]
	if more := params["prefixes"]; more != "" { // from the client of KeyVal
		if paths != "" {
			return kvrest.Wrong("prefixes", "there are both prefix and prefixes")
		}
		paths = more
	}
	if paths == "" {
		return kvrest.Wrong("prefix", "Missing 'prefix' query parameter")
	}
	var c kv.Watching
	if c.Prefixes, err = paramKeys(paths, "prefix"); err != nil {
		return err
	}
	if err := checkCount(len(c.Prefixes), kv.MaxWatchedPrefixes, "prefix"); err != nil {
		return err
	}
	if c.Initial, err = flagOf(params, "initial", true); err != nil {
		return err
	}
	text, given := params["limit"]
	limit, err := limitOf(text, given)
	if err != nil {
		return err
	}
	return w.watch(r, c, limit)
}

// watch sends changes, after up to most of the existing entries.
func (w watcher) watch(r *kvrest.Request, c kv.Watching, most int) error {
	events, err := r.Events()
	if err != nil {
		return err
	}
	defer events.Done()
	follow, err := w.WatchKV(r.Context(), r.Address, c)
	if err != nil {
		return err
	}
	defer follow.Close()
	if !events.Begin() {
		return nil
	}
	for first := c.Initial; ; {
		beat, cancel := events.Beat()
		changes, err := follow.Next(beat)
		due := kvrest.Ended(beat, err)
		cancel()
		if err != nil && (!due || r.Context().Err() != nil) {
			events.End(err)
			return nil
		}
		list := changed(changes.Changes)
		if first && err == nil {
			list = list[:min(len(list), most)]
			most -= len(list)
			first = changes.More
		}
		sent := true
		if len(list) > 0 {
			sent = events.Send("change", "", list)
		}
		if !sent || !events.Ping() {
			events.End(nil)
			return nil
		}
	}
}

func changed(changes []kv.Change) []entry {
	list := make([]entry, len(changes))
	for i := range changes {
		list[i] = show(changes[i].Key, changes[i].Entry)
	}
	return list
}

// seen returns the version that a client has seen, 0 for none.
func seen(stamp string) uint64 {
	if stamp == "" {
		return 0
	}
	return versionOf(stamp)
}

// pollKeys answers GET api/watch/poll.
func pollKeys(r *kvrest.Request) (any, error) {
	params, err := r.Params("keys", "versionstamps")
	if err != nil {
		return nil, err
	}
	keys, err := watchedKeys(params)
	if err != nil {
		return nil, err
	}
	known := make([]string, len(keys))
	if text := params["versionstamps"]; text != "" {
		if known = strings.Split(text, ","); len(known) != len(keys) {
			return nil, kvrest.Wrong("versionstamps", "there are %d versionstamps for %d keys", len(known), len(keys))
		}
	}
	var out kv.GetManyOutput
	if err := r.Do(host.KVGetMany, &kv.GetManyInput{Keys: keys}, &out); err != nil {
		return nil, err
	}
	answer := struct {
		Entries       []entry  `json:"entries"`
		Versionstamps []string `json:"versionstamps"`
	}{[]entry{}, make([]string, len(keys))}
	for i, e := range out.Entries {
		version := uint64(0)
		if e != nil {
			version = e.Version
			answer.Versionstamps[i] = stampOf(version)
		}
		if version != seen(known[i]) {
			answer.Entries = append(answer.Entries, show(keys[i], e))
		}
	}
	return answer, nil
}

// A sighting is a key under a prefix with the version that a client has seen, 0 for none.
type sighting struct {
	key     kv.Key
	version uint64
}

// known reads the versionstamps of an answer of pollPrefix: KEY:VERSIONSTAMP, separated by commas.
// Keys are written like paths of the native interface, so each has one form. The map is by stored
// key.
func known(text string, prefix kv.Key) (order []string, all map[string]sighting, err error) {
	all = make(map[string]sighting)
	if text == "" {
		return nil, all, nil
	}
	start, err := prefix.Pack()
	if err != nil {
		return nil, nil, err
	}
	pairs := strings.Split(text, ",")
	if err := checkCount(len(pairs), maxBatch, "versionstamps"); err != nil {
		return nil, nil, err
	}
	for _, pair := range pairs {
		colon := strings.LastIndexByte(pair, ':')
		key, err := kv.ParsePath(pair[:max(colon, 0)])
		var packed []byte
		if err == nil {
			packed, err = key.Pack()
		}
		rest, under := bytes.CutPrefix(packed, start)
		if under = under && (len(rest) == 0 || rest[0] != 0xFF); err != nil || !under { // 0xFF continues a string
			return nil, nil,
				kvrest.Wrong("versionstamps",
					"versionstamps: %.80q is not KEY:VERSIONSTAMP of an earlier answer about this prefix", pair)
		}
		order, all[string(packed)] = append(order, string(packed)), sighting{key, seen(pair[colon+1:])}
	}
	return order, all, nil
}

// pollPrefix answers GET api/watch/prefix/poll with the differences from the client's state. It
// reads the first entries of the prefix and the entries that the client names. So an entry that is
// no longer among the first is not reported as deleted.
func pollPrefix(r *kvrest.Request) (any, error) {
	params, err := r.Params("prefix", "versionstamps", "limit")
	if err != nil {
		return nil, err
	}
	if params["prefix"] == "" {
		return nil, kvrest.Wrong("prefix", "Missing 'prefix' query parameter")
	}
	within, err := paramKey(params["prefix"], "prefix")
	if err != nil {
		return nil, err
	}
	text, given := params["limit"]
	limit, err := limitOf(text, given)
	if err != nil {
		return nil, err
	}
	order, all, err := known(params["versionstamps"], within)
	if err != nil {
		return nil, err
	}
	// New entries are among the first. They are read together with the rest.
	page := kv.ListInput{Selection: kv.Selection{Prefix: within}, Limit: limit, KeysOnly: true}
	var first kv.ListOutput
	if err := r.Do(host.KVList, &page, &first); err != nil {
		return nil, err
	}
	for i := range first.Entries {
		key := first.Entries[i].Key
		packed, err := key.Pack()
		if err != nil {
			return nil, err
		}
		if _, there := all[string(packed)]; !there && len(order) < maxBatch {
			order, all[string(packed)] = append(order, string(packed)), sighting{key: key}
		}
	}
	var in kv.GetManyInput
	for _, packed := range order {
		in.Keys = append(in.Keys, all[packed].key)
	}
	answer := struct {
		Entries       []entry `json:"entries"`
		Versionstamps string  `json:"versionstamps"`
	}{Entries: []entry{}}
	if len(order) == 0 {
		return answer, nil
	}
	var out kv.GetManyOutput
	if err := r.Do(host.KVGetMany, &in, &out); err != nil {
		return nil, err
	}
	var stamps []string
	for i, e := range out.Entries {
		version := uint64(0)
		if e != nil {
			version = e.Version
			path, err := in.Keys[i].Path()
			if err != nil {
				return nil, err
			}
			stamps = append(stamps, path+":"+stampOf(version))
		}
		if version != all[order[i]].version {
			answer.Entries = append(answer.Entries, show(in.Keys[i], e))
		}
	}
	answer.Versionstamps = strings.Join(stamps, ",")
	return answer, nil
}
