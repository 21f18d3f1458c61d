package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"entgo.io/ent/dialect/sql/sqlgraph"
	"github.com/jmoiron/sqlx"

	authors "github.com/cairn-run/cairn/docs/examples/orm/ent/author"
	books "github.com/cairn-run/cairn/docs/examples/orm/ent/book"

	"github.com/cairn-run/cairn/docs/examples/orm/ent"
	"github.com/cairn-run/cairn/docs/examples/orm/shelf"
	"github.com/cairn-run/cairn/sqlitevfs"
)

type author struct {
	name   string
	born   time.Time
	living bool
}

type volume struct {
	title     string
	pages     int64
	published time.Time
	inPrint   bool
	price     *float64
	author    int64
}

// A library is the same operations with each of the tools.
type library interface {
	addAuthor(ctx context.Context, db *sql.DB, a author) (int64, error)
	addBook(ctx context.Context, db *sql.DB, b volume) (int64, error)
	book(ctx context.Context, db *sql.DB, id int64) (volume, error)
	titles(ctx context.Context, db *sql.DB, author string) ([]string, error)
	// withdraw takes an author's books out of print and counts them.
	withdraw(ctx context.Context, db *sql.DB, author int64) (int64, error)
	deleteBook(ctx context.Context, db *sql.DB, id int64) error
	// transaction adds a book in the tool's own transaction and commits that or rolls it back.
	transaction(ctx context.Context, db *sql.DB, b volume, commit bool) error
	isUnique(err error) bool
}

func tools() map[string]library {
	return map[string]library{"sqlc": byShelf{}, "sqlc prepared": byShelf{prepared: true}, "sqlx": bySqlx{}, "ent": byEnt{}}
}

// byShelf uses the code that sqlc generated.
type byShelf struct{ prepared bool }

func (s byShelf) queries(ctx context.Context, db *sql.DB) (*shelf.Queries, error) {
	if s.prepared {
		return shelf.Prepare(ctx, db)
	}
	return shelf.New(db), nil
}

func (s byShelf) addAuthor(ctx context.Context, db *sql.DB, a author) (int64, error) {
	q, err := s.queries(ctx, db)
	if err != nil {
		return 0, err
	}
	row, err := q.AddAuthor(ctx, shelf.AddAuthorParams{Name: a.name, Born: a.born, Living: a.living})
	if err == nil && (!row.Born.Equal(a.born) || row.Living != a.living) {
		return 0, errors.New("RETURNING gave other values")
	}
	return row.ID, err
}

func (s byShelf) addBook(ctx context.Context, db *sql.DB, b volume) (int64, error) {
	q, err := s.queries(ctx, db)
	if err != nil {
		return 0, err
	}
	return q.AddBook(ctx, bookParams(b))
}

func bookParams(b volume) shelf.AddBookParams {
	p := shelf.AddBookParams{Title: b.title, Pages: b.pages, Published: b.published, InPrint: b.inPrint, AuthorID: b.author}
	if b.price != nil {
		p.Price = sql.NullFloat64{Float64: *b.price, Valid: true}
	}
	return p
}

func (s byShelf) book(ctx context.Context, db *sql.DB, id int64) (volume, error) {
	q, err := s.queries(ctx, db)
	if err != nil {
		return volume{}, err
	}
	rows, err := q.BooksIn(ctx, []int64{id, -1})
	if err != nil || len(rows) != 1 {
		return volume{}, errors.Join(err, sql.ErrNoRows)
	}
	row := rows[0]
	b := volume{title: row.Title, pages: row.Pages, published: row.Published, inPrint: row.InPrint, author: row.AuthorID}
	if row.Price.Valid {
		b.price = &row.Price.Float64
	}
	return b, nil
}

func (s byShelf) titles(ctx context.Context, db *sql.DB, author string) (titles []string, err error) {
	q, err := s.queries(ctx, db)
	if err != nil {
		return nil, err
	}
	rows, err := q.BooksOf(ctx, author)
	for _, r := range rows {
		titles = append(titles, r.Title)
	}
	return titles, err
}

func (s byShelf) withdraw(ctx context.Context, db *sql.DB, author int64) (int64, error) {
	q, err := s.queries(ctx, db)
	if err != nil {
		return 0, err
	}
	return q.SetInPrint(ctx, shelf.SetInPrintParams{InPrint: false, AuthorID: author})
}

func (s byShelf) deleteBook(ctx context.Context, db *sql.DB, id int64) error {
	q, err := s.queries(ctx, db)
	if err != nil {
		return err
	}
	return q.DeleteBook(ctx, id)
}

func (s byShelf) transaction(ctx context.Context, db *sql.DB, b volume, commit bool) error {
	q, err := s.queries(ctx, db)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := q.WithTx(tx).AddBook(ctx, bookParams(b)); err != nil {
		return err
	}
	if n, err := q.WithTx(tx).CountBooks(ctx); err != nil || n == 0 {
		return errors.Join(err, errors.New("the transaction does not see its own row"))
	}
	if !commit {
		return tx.Rollback()
	}
	return tx.Commit()
}

func (byShelf) isUnique(err error) bool { return errors.Is(err, sqlitevfs.ErrUnique) }

// bySqlx uses sqlx.
type bySqlx struct{}

// sqlxBook is a row of books.
type sqlxBook struct {
	ID        int64
	Title     string
	Pages     int64
	Published time.Time
	InPrint   bool `db:"in_print"`
	Price     *float64
	AuthorID  int64 `db:"author_id"`
}

const sqlxInsert = `INSERT INTO books (title, pages, published, in_print, price, author_id)
	VALUES (:title, :pages, :published, :in_print, :price, :author_id)`

func sqlxRow(b volume) sqlxBook {
	return sqlxBook{Title: b.title, Pages: b.pages, Published: b.published, InPrint: b.inPrint, Price: b.price, AuthorID: b.author}
}

func (bySqlx) db(db *sql.DB) *sqlx.DB { return sqlx.NewDb(db, "sqlite3") }

func (x bySqlx) addAuthor(ctx context.Context, db *sql.DB, a author) (id int64, err error) {
	err = x.db(db).GetContext(ctx, &id, "INSERT INTO authors (name, born, living) VALUES (?, ?, ?) RETURNING id", a.name, a.born, a.living)
	return id, err
}

func (x bySqlx) addBook(ctx context.Context, db *sql.DB, b volume) (int64, error) {
	result, err := x.db(db).NamedExecContext(ctx, sqlxInsert, sqlxRow(b))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (x bySqlx) book(ctx context.Context, db *sql.DB, id int64) (volume, error) {
	var row sqlxBook
	err := x.db(db).GetContext(ctx, &row, "SELECT * FROM books WHERE id = ?", id)
	return volume{row.Title, row.Pages, row.Published, row.InPrint, row.Price, row.AuthorID}, err
}

func (x bySqlx) titles(ctx context.Context, db *sql.DB, author string) (titles []string, err error) {
	err = x.db(db).SelectContext(ctx, &titles, "SELECT title FROM books JOIN authors ON authors.id = author_id WHERE name = ?", author)
	return titles, err
}

func (x bySqlx) withdraw(ctx context.Context, db *sql.DB, author int64) (int64, error) {
	result, err := x.db(db).ExecContext(ctx, "UPDATE books SET in_print = false WHERE author_id = ?", author)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (x bySqlx) deleteBook(ctx context.Context, db *sql.DB, id int64) error {
	text, args, err := sqlx.In("DELETE FROM books WHERE id IN (?)", []int64{id})
	if err != nil {
		return err
	}
	_, err = x.db(db).ExecContext(ctx, text, args...)
	return err
}

func (x bySqlx) transaction(ctx context.Context, db *sql.DB, b volume, commit bool) error {
	tx, err := x.db(db).BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.NamedExecContext(ctx, sqlxInsert, sqlxRow(b)); err != nil {
		return err
	}
	if err := tx.GetContext(ctx, new(sqlxBook), "SELECT * FROM books WHERE title = ?", b.title); err != nil {
		return err
	}
	if !commit {
		return tx.Rollback()
	}
	return tx.Commit()
}

func (bySqlx) isUnique(err error) bool { return errors.Is(err, sqlitevfs.ErrUnique) }

// byEnt uses ent.
type byEnt struct{}

func (byEnt) addAuthor(ctx context.Context, db *sql.DB, a author) (int64, error) {
	row, err := entClient(db).Author.Create().SetName(a.name).SetBorn(a.born).SetLiving(a.living).Save(ctx)
	if err != nil {
		return 0, err
	}
	return int64(row.ID), nil
}

func (byEnt) addBook(ctx context.Context, db *sql.DB, b volume) (int64, error) {
	row, err := entBook(entClient(db), b).Save(ctx)
	if err != nil {
		return 0, err
	}
	return int64(row.ID), nil
}

func entBook(c *ent.Client, b volume) *ent.BookCreate {
	return c.Book.Create().SetTitle(b.title).SetPages(int(b.pages)).SetPublished(b.published).SetInPrint(b.inPrint).
		SetNillablePrice(b.price).SetAuthorID(int(b.author))
}

func (byEnt) book(ctx context.Context, db *sql.DB, id int64) (volume, error) {
	row, err := entClient(db).Book.Query().Where(books.ID(int(id))).WithAuthor().Only(ctx)
	if err != nil {
		return volume{}, err
	}
	return volume{row.Title, int64(row.Pages), row.Published, row.InPrint, row.Price, int64(row.Edges.Author.ID)}, nil
}

func (byEnt) titles(ctx context.Context, db *sql.DB, author string) ([]string, error) {
	return entClient(db).Author.Query().Where(authors.Name(author)).QueryBooks().Select(books.FieldTitle).Strings(ctx)
}

func (byEnt) withdraw(ctx context.Context, db *sql.DB, author int64) (int64, error) {
	n, err := entClient(db).Book.Update().Where(books.AuthorID(int(author))).SetInPrint(false).Save(ctx)
	return int64(n), err
}

func (byEnt) deleteBook(ctx context.Context, db *sql.DB, id int64) error {
	return entClient(db).Book.DeleteOneID(int(id)).Exec(ctx)
}

func (byEnt) transaction(ctx context.Context, db *sql.DB, b volume, commit bool) error {
	tx, err := entClient(db).Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := entBook(tx.Client(), b).Save(ctx); err != nil {
		return err
	}
	if n, err := tx.Book.Query().Count(ctx); err != nil || n == 0 {
		return errors.Join(err, errors.New("the transaction does not see its own row"))
	}
	if !commit {
		return tx.Rollback()
	}
	return tx.Commit()
}

func (byEnt) isUnique(err error) bool {
	return ent.IsConstraintError(err) && sqlgraph.IsUniqueConstraintError(err)
}
