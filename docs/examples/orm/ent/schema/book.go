package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Book is a book by one author, whom it needs.
type Book struct{ ent.Schema }

// Fields implements ent.Interface.
func (Book) Fields() []ent.Field {
	return []ent.Field{
		field.Int("author_id"),
		field.String("title").Unique(),
		field.Int("pages"),
		field.Time("published"),
		field.Bool("in_print").Default(true),
		field.Float("price").Optional().Nillable(),
	}
}

// Edges implements ent.Interface.
func (Book) Edges() []ent.Edge {
	return []ent.Edge{
		edge.From("author", Author.Type).Ref("books").Field("author_id").Unique().Required(),
		edge.To("reviews", Review.Type),
	}
}
