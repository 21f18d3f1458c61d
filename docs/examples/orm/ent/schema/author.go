package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Author is a person who wrote books.
type Author struct{ ent.Schema }

// Fields implements ent.Interface.
func (Author) Fields() []ent.Field {
	return []ent.Field{
		field.String("name").Unique(),
		field.Time("born"),
		field.Bool("living"),
	}
}

// Edges implements ent.Interface.
func (Author) Edges() []ent.Edge {
	return []ent.Edge{edge.To("books", Book.Type)}
}
