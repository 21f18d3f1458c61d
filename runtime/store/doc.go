// Package store is a durable key-value store of texts in groups, inside of a program: no server, no
// port, one directory.
//
//	st, err := store.Open("data")
//	err = st.Set("config", "theme", "dark")
//	theme, err := st.Get("config", "theme")
//
// A group is there while it has a key. [NewScoped] gives each tenant groups of its own, and
// [NewScopedWithQuota] bounds them. Keys may have a time to live. [Store.Watch] and
// [Store.OnChange] tell each change, in the order of the commits. [Store.Transaction] changes
// several keys as one.
//
// Writing returns when the change is on the disk. Reading sees all that was written before. All
// methods may be called from any goroutine, also while ranging over a store, inside of a
// transaction and in a callback. Those of a nil *Store fail with [ErrClosed].
//
// A store is the key-value store of one actor. [Open] runs a node with one actor for it, and [Of]
// takes the store of any actor of a running node. There, the key k of the group config is the entry
// ("config", "k"), and that of the group tenant-42:config is ("tenant-42", "config", "k"): letters,
// digits and hyphens before the first colon are a namespace. Values are texts, or bytes if they are
// not UTF-8. What other interfaces store under such keys is read as text; other keys are not seen
// and not deleted. A key and its group have up to 2,048 bytes, and are UTF-8; a value has up to 1
// MiB.
package store
