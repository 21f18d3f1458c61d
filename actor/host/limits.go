package host

// ActorLimits are the limits that operators have set for one actor. A nil field leaves the limit of
// the type. See Limits.
type ActorLimits struct {
	StorageBytes  *int64   `json:"storage_bytes,omitempty"`
	WriteSetBytes *int64   `json:"write_set_bytes,omitempty"`
	ValueBytes    *int64   `json:"value_bytes,omitempty"`
	StateBytes    *int64   `json:"state_bytes,omitempty"`
	MailboxCount  *int64   `json:"mailbox_count,omitempty"`
	MailboxBytes  *int64   `json:"mailbox_bytes,omitempty"`
	Connections   *int64   `json:"connections,omitempty"`
	CallRate      *float64 `json:"call_rate,omitempty"`
	CallBurst     *int64   `json:"call_burst,omitempty"`

	SQLMemoryBytes    *int64 `json:"sql_memory_bytes,omitempty"`
	SQLTemporaryBytes *int64 `json:"sql_temporary_bytes,omitempty"`
	SQLTurnBytes      *int64 `json:"sql_turn_bytes,omitempty"`
	SQLValueBytes     *int64 `json:"sql_value_bytes,omitempty"`
}

// An ActorLimit is a field of ActorLimits: one of Whole and Rate is set.
type ActorLimit struct {
	Name  string
	Whole **int64
	Rate  **float64
}

// Fields returns the fields of l with their names in JSON.
func (l *ActorLimits) Fields() []ActorLimit {
	return []ActorLimit{
		{Name: "storage_bytes", Whole: &l.StorageBytes},
		{Name: "write_set_bytes", Whole: &l.WriteSetBytes},
		{Name: "value_bytes", Whole: &l.ValueBytes},
		{Name: "state_bytes", Whole: &l.StateBytes},
		{Name: "mailbox_count", Whole: &l.MailboxCount},
		{Name: "mailbox_bytes", Whole: &l.MailboxBytes},
		{Name: "connections", Whole: &l.Connections},
		{Name: "call_rate", Rate: &l.CallRate},
		{Name: "call_burst", Whole: &l.CallBurst},
		{Name: "sql_memory_bytes", Whole: &l.SQLMemoryBytes},
		{Name: "sql_temporary_bytes", Whole: &l.SQLTemporaryBytes},
		{Name: "sql_turn_bytes", Whole: &l.SQLTurnBytes},
		{Name: "sql_value_bytes", Whole: &l.SQLValueBytes},
	}
}

// Empty reports whether no limit is set.
func (l *ActorLimits) Empty() bool { return *l == ActorLimits{} }

// Apply returns the limits of the type, overridden by those of the actor.
func (l *ActorLimits) Apply(of Limits) Limits {
	whole := func(to *int, from *int64) {
		if from != nil {
			*to = int(*from)
		}
	}
	long := func(to, from *int64) {
		if from != nil {
			*to = *from
		}
	}
	if l.CallRate != nil {
		of.CallRate = *l.CallRate
	}
	long(&of.StorageBytes, l.StorageBytes)
	long(&of.MailboxBytes, l.MailboxBytes)
	long(&of.SQLMemoryBytes, l.SQLMemoryBytes)
	long(&of.SQLTemporaryBytes, l.SQLTemporaryBytes)
	long(&of.SQLTurnBytes, l.SQLTurnBytes)
	whole(&of.SQLValueBytes, l.SQLValueBytes)
	whole(&of.WriteSetBytes, l.WriteSetBytes)
	whole(&of.ValueBytes, l.ValueBytes)
	whole(&of.StateBytes, l.StateBytes)
	whole(&of.MailboxCount, l.MailboxCount)
	whole(&of.Connections, l.Connections)
	whole(&of.CallBurst, l.CallBurst)
	return of
}
