package keyspace

// Persisted is the key of the actor's state: 01.
type Persisted struct{}

// AppendPersisted appends the key of the actor's state.
func AppendPersisted(dst []byte) []byte { return append(dst, byte(KindPersisted)) }

// ParsePersisted checks that key is that of the actor's state.
func ParsePersisted(key []byte) error { return parseExact(key, KindPersisted) }

// Kind returns [KindPersisted].
func (Persisted) Kind() Kind { return KindPersisted }

// Append appends the bytes of the key.
func (Persisted) Append(dst []byte) []byte { return AppendPersisted(dst) }

// String returns "persisted".
func (Persisted) String() string { return KindPersisted.String() }

func (Persisted) key() {}

// InspectorToken is the key of the secret that opens the inspector: 03.
type InspectorToken struct{}

// AppendInspectorToken appends the key of the inspector token.
func AppendInspectorToken(dst []byte) []byte { return append(dst, byte(KindInspectorToken)) }

// ParseInspectorToken checks that key is that of the inspector token.
func ParseInspectorToken(key []byte) error { return parseExact(key, KindInspectorToken) }

// Kind returns [KindInspectorToken].
func (InspectorToken) Kind() Kind { return KindInspectorToken }

// Append appends the bytes of the key.
func (InspectorToken) Append(dst []byte) []byte { return AppendInspectorToken(dst) }

// String returns "inspector-token".
func (InspectorToken) String() string { return KindInspectorToken.String() }

func (InspectorToken) key() {}
