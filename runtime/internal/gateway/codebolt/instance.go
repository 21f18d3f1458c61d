package codebolt

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

func instanceKey(id string) kv.Key { return kv.Key{part, id} }

// nameKey returns the prefix of the keys for the instances with a name; an id follows.
func nameKey(name string) kv.Key { return kv.Key{part, true, name} }

func noInstance(id string) *host.Error {
	return host.Errorf(host.NotFound, "there is no instance with the id %.80q", id)
}

var errContended = host.Errorf(host.Unavailable, "other clients change the same instance at the same time").Retry()

// An instance is a stored instance. It keeps members that this package does not know, which
// imported instances may have.
type instance struct {
	id       string
	document map[string]json.RawMessage
	version  uint64    // 0 if it is not stored yet
	stored   time.Time // when it was stored
}

// A shown is an instance in the form for clients.
type shown struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Description json.RawMessage `json:"description,omitempty"`
	RecordCount int64           `json:"recordCount"`
	Namespaces  []string        `json:"namespaces"`
	CreatedAt   json.RawMessage `json:"createdAt,omitempty"`
	UpdatedAt   json.RawMessage `json:"updatedAt,omitempty"`
}

func (in *instance) set(member string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings can be written
	}
	in.document[member] = text
}

func (in *instance) name() (s string) {
	json.Unmarshal(in.document["name"], &s) // a member of another type is no name
	return s
}

// created returns when the instance was created, by its own member in any form of time, or else
// when it was stored.
func (in *instance) created() time.Time {
	var at time.Time
	var ms float64
	raw := in.document["createdAt"]
	switch {
	case json.Unmarshal(raw, &at) == nil && !at.IsZero():
		return at
	case json.Unmarshal(raw, &ms) == nil && ms > 0:
		return time.UnixMilli(int64(ms))
	}
	return in.stored
}

// fresh reports whether the instance was not changed since it was created.
func (in *instance) fresh() bool {
	return string(in.document["createdAt"]) == string(in.document["updatedAt"])
}

// timeText formats a time as in instances.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// newInstance returns an instance that is not stored yet.
func newInstance(name string, description *string) *instance {
	in := &instance{id: uuid.NewString(), document: make(map[string]json.RawMessage)}
	at := timeText(time.Now())
	for member, v := range map[string]string{"id": in.id, "name": name, "createdAt": at, "updatedAt": at} {
		in.set(member, v)
	}
	if description != nil {
		in.set("description", *description)
	}
	return in
}

// put returns the mutation that stores the instance.
func (in *instance) put() (kv.Mutation, error) {
	text, err := json.Marshal(in.document)
	return kv.Mutation{Op: "put", Key: instanceKey(in.id), Value: text, Literal: true, TTLMS: new(int64)}, err
}

// named returns the mutation that adds the instance to the names, or removes it with the op delete.
func (in *instance) named(op string) kv.Mutation {
	m := kv.Mutation{Op: op, Key: append(nameKey(in.name()), in.id)}
	if op == "put" {
		m.Value, m.TTLMS = host.Raw("null"), new(int64)
	}
	return m
}

// create stores a new instance, with more mutations in the same commit. It reports whether the name
// was still free, by the digest.
func (in *instance) create(r *kvrest.Request, digest string, more ...kv.Mutation) (bool, error) {
	if err := scope(r, in.id); err != nil {
		return false, err
	}
	put, err := in.put()
	if err != nil {
		return false, err
	}
	out, err := commit(r, r.Do, &kv.CommitInput{
		Checks: []kv.Check{{Digest: digest}}, Mutations: append([]kv.Mutation{in.named("put"), put}, more...),
	})
	if err == nil && out.OK {
		return true, nil
	}
	if failed := unscope(r, in.id); err == nil {
		err = failed
	}
	return false, err
}

// scope makes the instance's entries a scope that counts namespaces. Any other policy stays.
func scope(r *kvrest.Request, id string) error {
	in := kv.SetScopeInput{Prefix: instanceKey(id), Extend: true, ScopePolicy: kv.ScopePolicy{CountGroups: true}}
	return r.Do(host.KVSetScope, &in, new(kv.Scope))
}

// unscopeTime is how long unscope may continue after the client has left.
const unscopeTime = 10 * time.Second

// unscope removes the scope of an instance that does not exist. It does so even if the client has
// left, because nobody else would.
func unscope(r *kvrest.Request, id string) error {
	err := r.DoLater(unscopeTime, host.KVRemoveScope, &kv.RemoveScopeInput{Prefix: instanceKey(id)},
		new(kv.RemoveScopeOutput))
	if missing(err) || host.CodeOf(err) == host.PermissionDenied { // the policy of an owner stays
		return nil
	}
	return err
}

// find returns an instance.
func find(r *kvrest.Request, id string) (*instance, error) {
	var out kv.GetOutput
	if err := r.Do(host.KVGet, &kv.GetInput{Key: instanceKey(id)}, &out); err != nil {
		return nil, err
	}
	if in := read(id, out.Entry); in != nil {
		return in, nil
	}
	return nil, noInstance(id)
}

// read reads an instance from its entry. It returns nil if the entry is no instance.
func read(id string, e *kv.Entry) *instance {
	in := &instance{id: id}
	if e == nil || json.Unmarshal(e.Value, &in.document) != nil || in.document == nil {
		return nil
	}
	in.version, in.stored = e.Version, e.Created
	return in
}

// A namesake holds the instances with a name: at most one, unless some were imported. A commit can
// check by the digest that there is no other.
type namesake struct {
	ids    []string
	digest string
}

// named finds instances by their name.
func named(r *kvrest.Request, name string) (found namesake, err error) {
	var out kv.ListOutput
	in := kv.ListInput{Selection: kv.Selection{Prefix: nameKey(name)}, KeysOnly: true, Digest: true}
	if err := r.Do(host.KVList, &in, &out); err != nil {
		return found, err
	}
	for _, e := range out.Entries {
		if id, is := idOf(e.Key); is {
			found.ids = append(found.ids, id)
		}
	}
	found.digest = out.Digest
	return found, nil
}

// idOf returns the id in the key that finds an instance by its name.
func idOf(k kv.Key) (id string, is bool) {
	if len(k) == 4 {
		id, is = k[3].(string)
	}
	return id, is
}

// count visits each namespace with its number of records. It makes the scope of an imported
// instance.
func count(r *kvrest.Request, id string, visit func(namespace string, records int64)) error {
	in := kv.GroupsInput{Prefix: instanceKey(id), Limit: kv.MaxPage}
	for scoped := false; ; {
		var out kv.GroupsOutput
		err := r.Do(host.KVGroups, &in, &out)
		if code := host.CodeOf(err); !scoped && (code == host.NotFound || code == host.FailedPrecondition) {
			if scoped, err = true, scope(r, id); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		for _, g := range out.Groups {
			if namespace, is := g.Part[0].(string); is {
				visit(namespace, g.Keys)
			}
		}
		if in.Cursor = out.Cursor; in.Cursor == "" {
			return nil
		}
	}
}

// show returns an instance with its counts.
func (in *instance) show(r *kvrest.Request) (any, error) {
	s := shown{
		ID: in.id, Name: in.name(), Description: in.document["description"], Namespaces: []string{},
		CreatedAt: in.document["createdAt"], UpdatedAt: in.document["updatedAt"],
	}
	err := count(r, in.id, func(namespace string, records int64) {
		s.Namespaces, s.RecordCount = append(s.Namespaces, namespace), s.RecordCount+records
	})
	return s, err
}

// createInstance answers POST instances.
func createInstance(r *kvrest.Request) (any, error) {
	var body struct {
		Name        text  `json:"name"`
		Description *text `json:"description"`
	}
	if err := r.Body(&body); err != nil {
		return nil, err
	}
	if err := body.Name.check("name", maxName); err != nil {
		return nil, err
	}
	found, err := named(r, string(body.Name))
	if err != nil {
		return nil, err
	}
	in := newInstance(string(body.Name), (*string)(body.Description))
	if len(found.ids) == 0 {
		ok, err := in.create(r, found.digest)
		if ok && err == nil {
			return in.show(r)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, taken(body.Name)
}

func taken(name text) *host.Error {
	return host.Errorf(host.AlreadyExists, "there is an instance with the name %.80q already",
		string(name)).With("field", "name")
}

// listInstances answers GET instances: the newest first.
func listInstances(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	var all []*instance
	in := kv.ListInput{Selection: kv.Selection{Prefix: kv.Key{part, true}}, KeysOnly: true, Limit: kv.MaxPage}
	for {
		var page kv.ListOutput
		if err := r.Do(host.KVList, &in, &page); err != nil {
			return nil, err
		}
		for keys := range slices.Chunk(page.Entries, 100) {
			found, err := instances(r, keys)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		if in.Cursor = page.Cursor; in.Cursor == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b *instance) int {
		return cmp.Or(b.created().Compare(a.created()), cmp.Compare(a.id, b.id))
	})
	list := make([]any, len(all))
	for i, in := range all {
		var err error
		if list[i], err = in.show(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// instances returns the instances for entries of names.
func instances(r *kvrest.Request, names []kv.Entry) (found []*instance, err error) {
	var ids []string
	var in kv.GetManyInput
	for _, e := range names {
		if id, is := idOf(e.Key); is {
			ids, in.Keys = append(ids, id), append(in.Keys, instanceKey(id))
		}
	}
	var out kv.GetManyOutput
	if err := r.Do(host.KVGetMany, &in, &out); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if in := read(id, out.Entries[i]); in != nil {
			found = append(found, in)
		}
	}
	return found, nil
}

// getInstance answers GET instances/:id.
func getInstance(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	in, err := find(r, r.Stars[0])
	if err != nil {
		return nil, err
	}
	return in.show(r)
}

// updateInstance answers PUT instances/:id.
func updateInstance(r *kvrest.Request) (any, error) {
	var body struct {
		Name        *text `json:"name"`
		Description *text `json:"description"`
	}
	if err := r.Body(&body); err != nil {
		return nil, err
	}
	if body.Name == nil && body.Description == nil {
		return nil, host.Errorf(host.InvalidArgument, "the body has neither a name nor a description")
	}
	if body.Name != nil {
		if err := body.Name.check("name", maxName); err != nil {
			return nil, err
		}
	}
	for range tries {
		in, err := find(r, r.Stars[0])
		if err != nil {
			return nil, err
		}
		do := kv.CommitInput{Checks: []kv.Check{{Key: instanceKey(in.id), Version: &in.version}}}
		if body.Name != nil && string(*body.Name) != in.name() {
			found, err := named(r, string(*body.Name))
			if err != nil {
				return nil, err
			}
			if len(found.ids) > 0 {
				return nil, taken(*body.Name)
			}
			do.Checks = append(do.Checks, kv.Check{Digest: found.digest})
			do.Mutations = append(do.Mutations, in.named("delete"))
			in.set("name", string(*body.Name))
			do.Mutations = append(do.Mutations, in.named("put"))
		}
		if body.Description != nil {
			in.set("description", string(*body.Description))
		}
		in.set("updatedAt", timeText(time.Now()))
		if in.fresh() {
			in.set("updatedAt", timeText(time.Now().Add(time.Millisecond)))
		}
		put, err := in.put()
		if err != nil {
			return nil, err
		}
		do.Mutations = append(do.Mutations, put)
		out, err := commit(r, r.DoExisting, &do)
		if err != nil {
			return nil, err
		}
		if out.OK {
			return in.show(r)
		}
	}
	return nil, errContended
}

// deleteInstance answers DELETE instances/:id.
func deleteInstance(r *kvrest.Request) (any, error) {
	if err := r.Allow(host.KVRemoveScope); err != nil {
		return nil, err
	}
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	for range tries {
		in, err := find(r, r.Stars[0])
		if err != nil {
			return nil, err
		}
		out, err := commit(r, r.DoExisting, &kv.CommitInput{
			Checks: []kv.Check{{Key: instanceKey(in.id), Version: &in.version}},
			Mutations: []kv.Mutation{in.named("delete"),
				{Op: "delete_range", Selection: kv.Selection{Prefix: instanceKey(in.id)}}},
		})
		if err != nil {
			return nil, err
		}
		if out.OK {
			return map[string]bool{"deleted": true}, unscope(r, in.id)
		}
	}
	return nil, errContended
}
