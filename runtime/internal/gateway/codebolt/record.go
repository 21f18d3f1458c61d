package codebolt

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

func recordKey(instance, namespace, key string) kv.Key {
	return kv.Key{part, instance, namespace, key}
}

// setRecord answers POST kv.
func setRecord(r *kvrest.Request) (any, error) {
	var in struct {
		InstanceID         text     `json:"instanceId"`
		Namespace          text     `json:"namespace"`
		Key                text     `json:"key"`
		Value              host.Raw `json:"value"`
		AutoCreateInstance bool     `json:"autoCreateInstance"`
	}
	if err := r.Body(&in); err != nil {
		return nil, err
	}
	if err := check(in.InstanceID.check("instanceId", maxKey),
		in.Namespace.check("namespace", maxName), in.Key.check("key", maxKey)); err != nil {
		return nil, err
	}
	if len(in.Value) == 0 {
		return nil, kvrest.Wrong("value", "value is missing; null is one")
	}
	type answer struct {
		InstanceID string `json:"instanceId"`
		Namespace  text   `json:"namespace"`
		Key        text   `json:"key"`
	}
	id := string(in.InstanceID)
	record := func(instance string) kv.Mutation {
		return kv.Mutation{Op: "put",
			Key: recordKey(instance, string(in.Namespace), string(in.Key)), Value: in.Value, Literal: true}
	}
	// put puts the record into an instance, if that exists.
	put := func(instance string, do func(string, any, any) error) (bool, error) {
		out, err := commit(r, do,
			&kv.CommitInput{Checks: []kv.Check{exists(instanceKey(instance))},
				Mutations: []kv.Mutation{record(instance)}})
		return out.OK, err
	}
	if !in.AutoCreateInstance {
		ok, err := put(id, r.DoExisting)
		if err == nil && !ok || missing(err) {
			err = noInstance(id)
		}
		return answer{id, in.Namespace, in.Key}, err
	}
	if err := in.InstanceID.check("instanceId", maxName); err != nil { // it may become a name
		return nil, err
	}
	if ok, err := put(id, r.Do); ok || err != nil {
		return answer{id, in.Namespace, in.Key}, err
	}
	for range tries {
		found, err := named(r, id)
		if err != nil {
			return nil, err
		}
		ok, instance := false, ""
		if len(found.ids) > 0 {
			instance = found.ids[0]
			ok, err = put(instance, r.Do)
		} else {
			made := newInstance(id, nil)
			instance = made.id
			ok, err = made.create(r, found.digest, record(instance))
		}
		if ok || err != nil {
			return answer{instance, in.Namespace, in.Key}, err
		}
	}
	return nil, errContended
}

// getRecord answers GET kv/:instanceId/:namespace/:key.
func getRecord(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	var out kv.GetOutput
	if err := r.Do(host.KVGet, &kv.GetInput{Key: recordKey(r.Stars[0], r.Stars[1], r.Stars[2])}, &out); err != nil {
		return nil, err
	}
	if out.Entry == nil {
		return nil, host.Errorf(host.NotFound, "there is no record with this key")
	}
	return struct {
		Value host.Raw `json:"value"`
	}{out.Entry.Value}, nil
}

// deleteRecord answers DELETE kv/:instanceId/:namespace/:key.
func deleteRecord(r *kvrest.Request) (any, error) {
	n, err := remove(r, kv.Mutation{Op: "delete", Key: recordKey(r.Stars[0], r.Stars[1], r.Stars[2])})
	return map[string]bool{"deleted": n > 0}, err
}

// deleteNamespace answers DELETE namespace/:instanceId/:namespace.
func deleteNamespace(r *kvrest.Request) (any, error) {
	n, err := remove(r, kv.Mutation{Op: "delete_range",
		Selection: kv.Selection{Prefix: kv.Key{part, r.Stars[0], r.Stars[1]}}})
	return map[string]int64{"deletedCount": n}, err
}

// remove runs a mutation that deletes, and returns how many entries it removed.
func remove(r *kvrest.Request, m kv.Mutation) (int64, error) {
	if _, err := r.Params(); err != nil {
		return 0, err
	}
	if err := r.AllowRead(); err != nil {
		return 0, err
	}
	out, err := commit(r, r.DoExisting, &kv.CommitInput{Mutations: []kv.Mutation{m}})
	if err != nil {
		if missing(err) {
			return 0, nil
		}
		return 0, err
	}
	return out.Results[0].Deleted, nil
}
