package traffic

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/workflow"
)

// Claim is the durable state of one claim.
type Claim struct {
	// Amount is in dollars.
	Amount int64
	Ending Ending
}

// Fund is the state of a fund: all of it is in the table payment.
type Fund struct{}

var fundTables = []actor.Migration{{Name: "1", SQL: `
	CREATE TABLE payment (
		flight TEXT PRIMARY KEY,
		amount INTEGER NOT NULL, -- dollars
		ending TEXT NOT NULL     -- "" while it is reserved
	) STRICT`}}

// An offer is the input of the workflow.
type offer struct {
	Flight int64 `json:"flight"`
	Amount int64 `json:"amount"`
}

// handling is the workflow of a claim.
var handling = actor.NewWorkflow[offer, Ending](Claims, "handling")

func (c *Claim) create(ctx *actor.Context) error {
	if key := ctx.Key(); len(key) == 1 {
		if n, err := strconv.ParseInt(key[0], 10, 64); err == nil && n > 0 && ClaimKey(n) == key[0] {
			return nil
		}
	}
	return actor.Errorf(actor.InvalidArgument, "the key of a claim is the number of its flight")
}

// file begins the workflow. Delay, run and the end of the message that brought it are one commit.
func (c *Claim) file(ctx *actor.Context, delay int) (actor.None, error) {
	number, err := strconv.ParseInt(ctx.Key()[0], 10, 64)
	if err != nil {
		return actor.None{}, err
	}
	c.Amount = Compensation(delay)
	_, err = handling.Start(ctx, offer{number, c.Amount})
	return actor.None{}, err
}

func (c Claim) look(*actor.ReadContext, actor.None) (ClaimReport, error) {
	return ClaimReport(c), nil
}

// handle is the life of a claim: it waits for documents, and pays if they are there. Money is set
// aside before it is transferred; if the bank refuses the transfer, that is undone.
//
// It runs again from its first line after a crash, and what has ended returns what it returned
// before.
func handle(ctx workflow.Context, o offer) (Ending, error) {
	ending, err := decide(ctx, o)
	if err != nil {
		return "", err
	}
	_, err = actor.UpdateState(ctx, "close", func(c *Claim, _ *actor.Context) (actor.None, error) {
		c.Ending = ending
		return actor.None{}, nil
	})
	return ending, err
}

func decide(ctx workflow.Context, o offer) (Ending, error) {
	papers, err := workflow.Receive(ctx, "documents", Documents, workflow.Within(DocumentsWithin))
	if errors.Is(err, workflow.ErrTimeout) {
		return Rejected, nil
	}
	if err != nil {
		return "", err
	}
	if !papers.Body.Complete {
		return Rejected, nil
	}
	p := Payment{Flight: ClaimKey(o.Flight), Amount: o.Amount}
	ending, err := workflow.Saga(ctx, "payment", func(ctx workflow.Context) (Ending, error) {
		_, err := workflow.Compensated(ctx, "reserve",
			func(sc *workflow.StepCtx) (actor.None, error) { return Reserve.CallFrom(sc, fund, p) },
			func(sc *workflow.StepCtx, _ actor.None) error {
				_, err := Release.CallFrom(sc, fund, p)
				return err
			})
		if err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "transfer", func(*workflow.StepCtx) error { return transfer(o) }); err != nil {
			return "", err
		}
		_, err = actor.CallStep(ctx, "book", Book, fund, p)
		return Paid, err
	}, workflow.UndoRetry(workflow.RetryPolicy{MaxAttempts: -1}))
	if errors.Is(err, errRefused) {
		return Undone, nil
	}
	return ending, err
}

var errRefused = errors.New("the bank does not know the account")

// transfer stands for the request to a bank. To be repeatable, the replay has the bank refuse the
// same flights each time.
func transfer(o offer) error {
	if BankRefuses(o.Flight) {
		return workflow.Permanent(errRefused)
	}
	return nil
}

// fund is the key of the fund that claims are paid from.
var fund = []string{"claims"}

func (f *Fund) reserve(ctx *actor.Context, p Payment) (actor.None, error) {
	if p.Flight == "" || p.Amount <= 0 {
		return actor.None{}, actor.Errorf(actor.InvalidArgument, "a payment needs a flight and an amount")
	}
	_, err := ctx.SQL().ExecContext(ctx, `INSERT INTO payment (flight, amount, ending) VALUES (?, ?, '') ON CONFLICT DO NOTHING`, p.Flight, p.Amount)
	return actor.None{}, err
}

func (f *Fund) release(ctx *actor.Context, p Payment) (actor.None, error) {
	return actor.None{}, f.end(ctx, p, Undone)
}

func (f *Fund) book(ctx *actor.Context, p Payment) (actor.None, error) {
	return actor.None{}, f.end(ctx, p, Paid)
}

// end settles a payment; one that is settled stays as it is.
func (f *Fund) end(ctx *actor.Context, p Payment, how Ending) error {
	_, err := ctx.SQL().ExecContext(ctx, `UPDATE payment SET ending = ? WHERE flight = ? AND ending = ''`, string(how), p.Flight)
	return err
}

func (f Fund) totals(ctx *actor.ReadContext, _ actor.None) (FundReport, error) {
	var r FundReport
	err := ctx.SQL().QueryRowContext(ctx, `
		SELECT coalesce(sum(amount) FILTER (WHERE ending = ''), 0), coalesce(sum(amount) FILTER (WHERE ending = ?), 0),
			coalesce(sum(amount) FILTER (WHERE ending = ?), 0)
		FROM payment`, string(Paid), string(Undone)).Scan(&r.Reserved, &r.Paid, &r.Undone)
	if err != nil {
		return FundReport{}, fmt.Errorf("sum the payments: %w", err)
	}
	return r, nil
}

// ClaimKey returns the key of the claim for a flight, which is that of its payment as well.
func ClaimKey(number int64) string { return strconv.FormatInt(number, 10) }

// Compensation is what a delay is worth, in dollars.
func Compensation(delay int) int64 { return 2 * int64(delay) }

// BankRefuses reports whether the bank refuses the transfer for a flight.
func BankRefuses(number int64) bool { return number%7 == 3 }

// DocumentsWithin is how long a claim waits for documents.
const DocumentsWithin = 30 * 24 * time.Hour
