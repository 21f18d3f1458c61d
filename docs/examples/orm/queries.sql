-- name: AddAuthor :one
INSERT INTO authors (name, born, living) VALUES (?, ?, ?) RETURNING *;

-- name: AuthorNamed :one
SELECT * FROM authors WHERE name = ?;

-- name: AddBook :execlastid
INSERT INTO books (title, pages, published, in_print, price, author_id) VALUES (?, ?, ?, ?, ?, ?);

-- name: Book :one
SELECT * FROM books WHERE id = ?;

-- name: BooksOf :many
SELECT books.* FROM books JOIN authors ON authors.id = books.author_id WHERE authors.name = ? ORDER BY published;

-- name: BooksIn :many
SELECT * FROM books WHERE id IN (sqlc.slice('ids')) ORDER BY id;

-- name: SetInPrint :execrows
UPDATE books SET in_print = ? WHERE author_id = ?;

-- name: DeleteBook :exec
DELETE FROM books WHERE id = ?;

-- name: CountBooks :one
SELECT count(*) FROM books;
