CREATE TABLE authors (
    id     integer  NOT NULL PRIMARY KEY AUTOINCREMENT,
    name   text     NOT NULL,
    born   datetime NOT NULL,
    living bool     NOT NULL
);
CREATE UNIQUE INDEX authors_name_key ON authors (name);

CREATE TABLE books (
    id        integer  NOT NULL PRIMARY KEY AUTOINCREMENT,
    title     text     NOT NULL,
    pages     integer  NOT NULL,
    published datetime NOT NULL,
    in_print  bool     NOT NULL DEFAULT (true),
    price     real,
    author_id integer  NOT NULL,
    CONSTRAINT books_authors_books FOREIGN KEY (author_id) REFERENCES authors (id) ON DELETE NO ACTION
);
CREATE UNIQUE INDEX books_title_key ON books (title);
