// Package store is a durable key-value store of texts in groups, inside a program. It needs no
// server and no port, only a directory.
//
//	st, err := store.Open("data")
//	err = st.Set("config", "theme", "dark")
//	theme, err := st.Get("config", "theme")
//
// A group exists while it has a key. [NewScoped] gives each tenant its own groups, and
// [NewScopedWithQuota] bounds them. Keys may have a time to live. [Store.Watch] and
// [Store.OnChange] report each change, in the order of the commits. [Store.Transaction] changes
// several keys in one commit.
//
// A write returns when the change is on the disk. A read sees all earlier writes. All methods may
// be called from any goroutine, even while ranging over a store, inside a transaction and in a
// callback. Methods of a nil *Store fail with [ErrClosed].
//
// A store is the key-value store of one actor. [Open] runs a node with one actor for it, and [Of]
// returns the store of any actor of a running node. There, the key k of the group config is the
// entry ("config", "k"), and in the group tenant-42:config it is ("tenant-42", "config", "k"):
// letters, digits and hyphens before the first colon are a namespace. Values are texts, or bytes if
// they are not UTF-8. Values that other interfaces store under such keys are read as text; other
// keys are not seen and not deleted. A key and its group have up to 2,048 bytes, and are UTF-8; a
// value has up to 1 MiB.
package store
