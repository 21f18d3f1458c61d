package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Review is what a reader thinks of a book. Its table is not in the migrations: ent creates it.
type Review struct{ ent.Schema }

// Fields implements ent.Interface.
func (Review) Fields() []ent.Field {
	return []ent.Field{
		field.Int("stars").Range(1, 5),
		field.String("text").Default(""),
		field.Time("written"),
	}
}

// Edges implements ent.Interface.
func (Review) Edges() []ent.Edge {
	return []ent.Edge{edge.From("book", Book.Type).Ref("reviews").Unique().Required()}
}
