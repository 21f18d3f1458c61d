// Orm keeps the books of libraries in their SQLite databases, through three tools that know nothing
// of actors: code that sqlc generated, sqlx, and ent.
package main

import (
	"database/sql"
	"embed"
	"errors"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/docs/examples/orm/ent"
	"github.com/cairn-run/cairn/docs/examples/orm/ent/book"
	"github.com/cairn-run/cairn/docs/examples/orm/shelf"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/sqlitevfs"
)

//go:generate env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.30.0 generate
//go:generate go run -mod=mod entgo.io/ent/cmd/ent generate ./ent/schema

//go:embed migrations
var migrations embed.FS

// The contract: what callers need to know.
var (
	Libraries = actor.NewType[Library]("library")
	Acquire   = actor.NewAction[Acquisition, int64](Libraries, "acquire")
	Rate      = actor.NewAction[Rating, int](Libraries, "rate")
	Catalogue = actor.NewQuery[actor.None, []Entry](Libraries, "catalogue")
)

// Library is the state; what there is many of is in the database.
type Library struct {
	Acquired int
}

// An Acquisition is a book that a library gets. Its author is added if the library has none of that
// name.
type Acquisition struct {
	Title     string
	Author    string
	Born      time.Time
	Published time.Time
	Pages     int64
}

// A Rating is a reader's opinion of a book, 1 to 5 stars.
type Rating struct {
	Title string
	Stars int
	Text  string
}

// An Entry of the catalogue is a book with its average rating, 0 if it has none.
type Entry struct {
	Title     string
	Author    string
	Published time.Time
	InPrint   bool `db:"in_print"`
	Stars     float64
}

// create makes the tables that ent owns. Those of sqlc and sqlx are in the migrations.
func (*Library) create(ctx *actor.Context) error {
	return entClient(ctx.SQL()).Schema.Create(ctx)
}

// acquire uses what sqlc generated. The rows and the state are one commit.
func (l *Library) acquire(ctx *actor.Context, in Acquisition) (int64, error) {
	q := shelf.New(ctx.SQL())
	author, err := q.AuthorNamed(ctx, in.Author)
	if errors.Is(err, sql.ErrNoRows) {
		author, err = q.AddAuthor(ctx, shelf.AddAuthorParams{Name: in.Author, Born: in.Born, Living: true})
	}
	if err != nil {
		return 0, err
	}
	id, err := q.AddBook(ctx, shelf.AddBookParams{
		Title: in.Title, Pages: in.Pages, Published: in.Published, InPrint: true, AuthorID: author.ID,
	})
	if errors.Is(err, sqlitevfs.ErrUnique) {
		return 0, actor.Errorf(actor.AlreadyExists, "there is a book %q", in.Title)
	}
	l.Acquired++
	return id, err
}

// rate uses ent and returns how many ratings the book has now.
func (*Library) rate(ctx *actor.Context, in Rating) (int, error) {
	client := entClient(ctx.SQL())
	b, err := client.Book.Query().Where(book.Title(in.Title)).Only(ctx)
	if ent.IsNotFound(err) {
		return 0, actor.Errorf(actor.NotFound, "there is no book %q", in.Title)
	}
	if err != nil {
		return 0, err
	}
	err = client.Review.Create().SetBook(b).SetStars(in.Stars).SetText(in.Text).SetWritten(ctx.Now()).Exec(ctx)
	if ent.IsValidationError(err) {
		return 0, actor.Errorf(actor.InvalidArgument, "%v", err)
	}
	if err != nil {
		return 0, err
	}
	return b.QueryReviews().Count(ctx)
}

// catalogue uses sqlx, on the last commit.
func (Library) catalogue(ctx *actor.ReadContext, _ actor.None) ([]Entry, error) {
	entries := []Entry{}
	err := sqlx.NewDb(ctx.SQL(), "sqlite3").SelectContext(ctx, &entries, `
		SELECT title, name AS author, published, in_print, coalesce(avg(stars), 0.0) AS stars
		FROM books JOIN authors ON authors.id = author_id LEFT JOIN reviews ON book_reviews = books.id
		GROUP BY books.id ORDER BY title`)
	return entries, err
}

func entClient(db *sql.DB) *ent.Client {
	return ent.NewClient(ent.Driver(entsql.OpenDB(dialect.SQLite, db)))
}

func definition() actor.Definition {
	return actor.Define(Libraries,
		actor.Spec[Library]{Migrations: actor.MustReadMigrations(migrations, "migrations/*.sql"), OnCreate: (*Library).create},
		actor.On(Acquire, (*Library).acquire), actor.On(Rate, (*Library).rate), actor.OnQuery(Catalogue, Library.catalogue))
}

func main() { runtime.Main(definition()) }
