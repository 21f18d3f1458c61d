package main

import (
	"database/sql"

	"github.com/cairn-run/cairn/actor"
)

// Items are the articles of the shop: actors with one key part, the article's name.
var (
	Items = actor.NewType[Item]("item")
	// Stock puts the first pieces on the shelf; when there have been any, it does nothing.
	Stock = actor.NewAction[int, actor.None](Items, "stock")
	// Reserve takes pieces off the shelf for an order, and Release puts them back. Each does it
	// once per order, and Release also if it does not know of a reservation: then none can be made
	// later.
	Reserve = actor.NewAction[Reservation, actor.None](Items, "reserve")
	Release = actor.NewAction[string, actor.None](Items, "release")
	Level   = actor.NewQuery[actor.None, int](Items, "level")
)

// A Reservation is so many pieces for an order.
type Reservation struct {
	Order string `json:"order"`
	Count int    `json:"count"`
}

// Item is the state of an article.
type Item struct {
	Known bool
	Free  int
	// Reserved is how many pieces each order has. Released are the orders that have given theirs
	// back.
	Reserved map[string]int
	Released map[string]bool
}

func (i *Item) stock(_ *actor.Context, n int) (actor.None, error) {
	if !i.Known {
		i.Known, i.Free, i.Reserved = true, n, make(map[string]int)
	}
	return actor.None{}, nil
}

func (i *Item) reserve(_ *actor.Context, r Reservation) (actor.None, error) {
	if _, ok := i.Reserved[r.Order]; ok {
		return actor.None{}, nil
	}
	if i.Released[r.Order] {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "the order was given up")
	}
	if r.Count < 1 || r.Count > i.Free {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "%d ordered, %d in stock", r.Count, i.Free)
	}
	i.Free -= r.Count
	i.Reserved[r.Order] = r.Count
	return actor.None{}, nil
}

func (i *Item) release(_ *actor.Context, order string) (actor.None, error) {
	i.Free += i.Reserved[order]
	delete(i.Reserved, order)
	if i.Released == nil {
		i.Released = make(map[string]bool)
	}
	i.Released[order] = true
	return actor.None{}, nil
}

func (i Item) level(*actor.ReadContext, actor.None) (int, error) { return i.Free, nil }

// Accounts are the customers' accounts: actors with one key part, the customer's name. The entries
// are rows of a SQLite database that each account has.
var (
	Accounts = actor.NewType[Account]("account")
	// Deposit opens an account with an amount; when it is open, it does nothing.
	Deposit = actor.NewAction[int, actor.None](Accounts, "deposit")
	// Charge takes what an order costs, and Refund gives back what was taken. Each does it once per
	// order. Refund also ends an order that was not charged: a charge that comes later is refused.
	Charge  = actor.NewAction[Payment, actor.None](Accounts, "charge")
	Refund  = actor.NewAction[Payment, actor.None](Accounts, "refund")
	Balance = actor.NewQuery[actor.None, int](Accounts, "balance")
)

// A Payment is what an order costs.
type Payment struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// Account is the state of an account: all of it is in the table.
type Account struct{}

var accountTables = []actor.Migration{{Name: "1", SQL: `CREATE TABLE entry (name TEXT PRIMARY KEY, cents INTEGER NOT NULL) STRICT`}}

// book adds an entry unless there is one of that name.
func book(ctx *actor.Context, name string, cents int) error {
	_, err := ctx.SQL().ExecContext(ctx, `INSERT INTO entry (name, cents) VALUES (?, ?) ON CONFLICT DO NOTHING`, name, cents)
	return err
}

func (a *Account) deposit(ctx *actor.Context, cents int) (actor.None, error) {
	return actor.None{}, book(ctx, "opening", cents)
}

func (a *Account) charge(ctx *actor.Context, p Payment) (actor.None, error) {
	var booked, refunded bool
	var balance int
	err := ctx.SQL().QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = ?) > 0, count(*) FILTER (WHERE name = ?) > 0, coalesce(sum(cents), 0) FROM entry`,
		p.Order, refundOf(p.Order)).Scan(&booked, &refunded, &balance)
	if err != nil {
		return actor.None{}, err
	}
	if refunded {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "the order was given up")
	}
	if !booked && p.Cents > balance {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "the account does not cover it")
	}
	return actor.None{}, book(ctx, p.Order, -p.Cents)
}

func (a *Account) refund(ctx *actor.Context, p Payment) (actor.None, error) {
	var cents int
	if err := ctx.SQL().QueryRowContext(ctx, `SELECT coalesce(-sum(cents), 0) FROM entry WHERE name = ?`, p.Order).Scan(&cents); err != nil {
		return actor.None{}, err
	}
	return actor.None{}, book(ctx, refundOf(p.Order), cents)
}

// refundOf is the name of the entry that ends an order.
func refundOf(order string) string { return order + ", refunded" }

func (a Account) balance(ctx *actor.ReadContext, _ actor.None) (int, error) {
	var cents sql.NullInt64
	err := ctx.SQL().QueryRowContext(ctx, `SELECT sum(cents) FROM entry`).Scan(&cents)
	return int(cents.Int64), err
}
