package keyval

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// written is the answer to a write.
type written struct {
	OK           bool              `json:"ok"`
	Versionstamp string            `json:"versionstamp,omitempty"`
	Resolved     map[string]string `json:"resolved,omitempty"`
}

func answerOf(out *kv.CommitOutput) written {
	if !out.OK {
		return written{}
	}
	return written{true, stampOf(out.Version), out.Resolved}
}

// set answers PUT api/keys/*.
func set(r *kvrest.Request) (any, error) {
	params, err := r.Params("expiresIn")
	if err != nil {
		return nil, err
	}
	key, err := pathKey(r.Stars, "key")
	if err != nil {
		return nil, err
	}
	m := kv.Mutation{Op: "put", Key: key}
	if text, given := params["expiresIn"]; given {
		ms := json.Number(text)
		if m.TTLMS, err = lifetime(&ms, "expiresIn"); err != nil {
			return nil, err
		}
	}
	body, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	if m.Value, m.Encoding, err = document(body, "the body", time.Now()); err != nil {
		return nil, err
	}
	var out kv.CommitOutput
	err = r.Do(host.KVCommit, &kv.CommitInput{Mutations: []kv.Mutation{m}}, &out)
	return answerOf(&out), kvrest.Outside(err, "mutations")
}

var errAbsent = host.Errorf(host.NotFound, "Key not found")

// get answers GET api/keys/*.
func get(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	key, err := pathKey(r.Stars, "key")
	if err != nil {
		return nil, err
	}
	var out kv.GetOutput
	if err := r.Do(host.KVGet, &kv.GetInput{Key: key}, &out); err != nil {
		return nil, err
	}
	if out.Entry == nil {
		return nil, errAbsent
	}
	return show(key, out.Entry), nil
}

// keysOf reads 1 to maxBatch keys.
func keysOf(raw []host.Raw) ([]kv.Key, error) {
	if len(raw) == 0 {
		return nil, kvrest.Wrong("keys", `keys is missing or empty; it is an array of keys, such as [["users",123]]`)
	}
	if err := checkCount(len(raw), maxBatch, "keys"); err != nil {
		return nil, err
	}
	keys := make([]kv.Key, len(raw))
	for i := range raw {
		var err error
		if keys[i], err = jsonKey(raw[i], "keys["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// getBatch answers POST api/keys/batch.
func getBatch(r *kvrest.Request) (any, error) {
	var in struct {
		Keys []host.Raw `json:"keys" max:"10000"`
	}
	if err := r.Body(&in); err != nil {
		return nil, err
	}
	keys, err := keysOf(in.Keys)
	if err != nil {
		return nil, err
	}
	return getAll(r, keys)
}

// getAll returns the entries of keys, in their order.
func getAll(r *kvrest.Request, keys []kv.Key) ([]entry, error) {
	var out kv.GetManyOutput
	if err := r.Do(host.KVGetMany, &kv.GetManyInput{Keys: keys}, &out); err != nil {
		return nil, err
	}
	shown := make([]entry, len(keys))
	for i, key := range keys {
		shown[i] = show(key, out.Entries[i])
	}
	return shown, nil
}

// A removal says what is deleted for a key: the key and its descendants, those of them that match a
// filter, or only the key.
type removal struct {
	Exact host.Raw `json:"exact"` // raw, because null would count as false, which deletes more
	Where host.Raw `json:"where"`
}

// of returns the mutation of a removal.
func (d *removal) of(key kv.Key) (kv.Mutation, error) {
	exact := false
	switch string(d.Exact) {
	case "", "false":
	case "true":
		exact = true
	default:
		return kv.Mutation{}, kvrest.Wrong("exact", "exact is %s; it is true or false", clip(d.Exact))
	}
	if d.Where == nil {
		if exact {
			return kv.Mutation{Op: "delete", Key: key}, nil
		}
		return kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: key}}, nil
	}
	if d.Where[0] != '{' { // kv.commit refuses an empty filter
		return kv.Mutation{}, kvrest.Wrong("where", "where is no filter, which is an object of conditions")
	}
	m := kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: key}, Where: filter(d.Where)}
	if exact { // the next possible key has another part of at least one byte
		m.Selection = kv.Selection{Start: key, End: append(key[:len(key):len(key)], kv.Raw{0})}
	}
	return m, nil
}

// do deletes the entries for keys, in one commit.
func (d *removal) do(r *kvrest.Request, keys ...kv.Key) (any, error) {
	var in kv.CommitInput
	for _, key := range keys {
		m, err := d.of(key)
		if err != nil {
			return nil, err
		}
		in.Mutations = append(in.Mutations, m)
	}
	if err := r.AllowRead(); err != nil {
		return nil, err
	}
	deleted := int64(0)
	var out kv.CommitOutput
	err := r.DoExisting(host.KVCommit, &in, &out)
	if noActor(err) {
		err = nil
	}
	for i := range out.Results {
		deleted += out.Results[i].Deleted
	}
	return map[string]int64{"deletedCount": deleted}, kvrest.Outside(err, "mutations")
}

// remove answers DELETE api/keys/*.
func remove(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	key, err := pathKey(r.Stars, "key")
	if err != nil {
		return nil, err
	}
	body, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	var d removal
	if len(body) > 0 {
		if err := kvrest.Decode(body, &d); err != nil {
			return nil, err
		}
	}
	return d.do(r, key)
}

// deleteBatch answers POST api/keys/delete-batch.
func deleteBatch(r *kvrest.Request) (any, error) {
	var in struct {
		Keys []host.Raw `json:"keys" max:"10000"`
		removal
	}
	if err := r.Body(&in); err != nil {
		return nil, err
	}
	keys, err := keysOf(in.Keys)
	if err != nil {
		return nil, err
	}
	return in.removal.do(r, keys...)
}
