package store

import (
	"reflect"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// A ScopedStore is a namespace of a store. Its group g is the group NAMESPACE:g of the store, and
// the group "" is [DefaultGroup].
type ScopedStore = Store

// A QuotaConfig bounds a namespace. 0 means no bound.
type QuotaConfig struct {
	MaxKeys   int // in all groups
	MaxGroups int
}

// NewScoped returns a namespace of a store. Its name consists of letters, digits and hyphens.
func NewScoped(s *Store, namespace string) (*ScopedStore, error) {
	switch {
	case s.closed():
		return nil, s.fault("NewScoped", ErrClosed)
	case !namespacePattern.MatchString(namespace):
		return nil, s.fault("NewScoped",
			host.Errorf(host.InvalidArgument,
				"the namespace %q is not one of letters, digits and hyphens", namespace).With("field", "namespace"))
	}
	return &Store{s.core, s.namespace + namespace + ":", s.tx}, nil
}

// NewScopedWithQuota is NewScoped, and sets the quota of the namespace. The quota is stored, and
// applies to every writer, even through the store itself and in transactions. A change beyond it
// fails with [ErrQuotaExceeded]. Overwritten and expired keys do not count. A quota below the
// current size removes nothing. A group of the store with the name of the namespace counts, too.
func NewScopedWithQuota(s *Store, namespace string, q QuotaConfig) (*ScopedStore, error) {
	const op = "NewScopedWithQuota"
	scoped, err := NewScoped(s, namespace)
	switch {
	case err != nil:
		return nil, err
	case q.MaxKeys < 0 || q.MaxGroups < 0:
		return nil, s.fault(op,
			host.Errorf(host.InvalidArgument, "the quota %+v is negative", q).With("field", "quota"))
	case s.namespace != "" || s.tx != nil:
		return nil, s.fault(op, host.Errorf(host.FailedPrecondition, "a quota is for a namespace of the store itself"))
	}
	prefix := kv.Key{namespace}
	was, err := s.scope(s.ctx, prefix)
	if err != nil {
		return nil, s.fault(op, err)
	}
	policy := kv.Policy{}
	if was != nil {
		policy = *was
	}
	policy.MaxKeys, policy.MaxGroups, policy.CountGroups = int64(q.MaxKeys), int64(q.MaxGroups), true
	if was == nil || !reflect.DeepEqual(*was, policy) {
		if _, err = s.kv.SetScope(s.ctx, prefix, policy); err != nil {
			return nil, s.fault(op, err)
		}
	}
	return scoped, nil
}
