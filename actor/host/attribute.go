package host

// An Attribute is a value by which actors are found; see ListQuery.
type Attribute struct {
	Name string
	Kind AttributeKind
}

// An AttributeKind is the type of an attribute's values.
type AttributeKind uint8

// The kinds of attributes.
const (
	StringAttribute AttributeKind = iota + 1
	IntegerAttribute
	BoolAttribute
	TimeAttribute
)

// String returns the name of the kind.
func (k AttributeKind) String() string {
	switch k {
	case StringAttribute:
		return "string"
	case IntegerAttribute:
		return "integer"
	case BoolAttribute:
		return "bool"
	case TimeAttribute:
		return "time"
	}
	return "unknown"
}

// An AttributeValue is the value of an attribute. The zero AttributeValue is none.
type AttributeValue struct {
	Kind   AttributeKind
	Text   string // of a string
	Number int64  // an integer, 1 for true, or the Unix milliseconds of a time
}

// The bounds of attributes.
const (
	// MaxAttributes is how many attributes a type may have.
	MaxAttributes = 16
	// MaxAttributeBytes bounds a string.
	MaxAttributeBytes = 256
)

// ListFields are the fields by which every actor can be selected or sorted. No attribute has one of
// these names.
var ListFields = []string{"key", "state", "run", "size", "updated", "created"}
