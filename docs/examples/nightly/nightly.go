package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/workflow"
)

// Companies are actors with one key part, a name. A company closes its books every night.
var (
	Companies = actor.NewType[Company]("company")
	// Open begins the business: from then on, the books of these tenants are closed every night.
	Open = actor.NewAction[[]string, actor.None](Companies, "open")
	Show = actor.NewQuery[actor.None, Company](Companies, "show")
	// Nightly is the schedule, Closing what it begins: one run per night.
	Nightly = actor.NewSchedule[actor.None](Companies, "nightly")
	Closing = actor.NewWorkflow[Night, Report](Companies, "closing")
)

// Tenants are actors with one key part, a name. What they use is counted.
var (
	Tenants = actor.NewType[Tenant]("tenant")
	Use     = actor.NewAction[int, actor.None](Tenants, "use")
	// Meter reads the meter for a date, and sets it back.
	Meter = actor.NewAction[string, int](Tenants, "meter")
)

// Bills are actors with two key parts: tenant and date.
var (
	Bills = actor.NewType[Bill]("bill")
	// Billing makes a bill, and returns the sum in cents.
	Billing = actor.NewWorkflow[Night, int](Bills, "billing")
)

// A Night is the date of a night, like 2026-01-31, and for a bill whose it is.
type Night struct {
	Date   string `json:"date"`
	Tenant string `json:"tenant,omitempty"`
}

// A Report is what a night has come to.
type Report struct {
	Date  string `json:"date"`
	Bills int    `json:"bills"`
	Cents int    `json:"cents"`
	// Failed are tenants without a bill, with the reason.
	Failed []string `json:"failed,omitempty"`
}

// Company is the state of a company.
type Company struct {
	Tenants []string
	Reports []Report
}

// Tenant is the state of a tenant.
type Tenant struct {
	Used int
	// Read is what the meter said last, and On when.
	Read int
	On   string
}

// Bill is the state of a bill.
type Bill struct{ Text string }

// atOnce is how many bills are made at the same time.
const atOnce = 3

// A press prints bills, which takes its time.
type press func(ctx context.Context, text string) error

func (p press) definitions() []actor.Definition {
	return []actor.Definition{
		actor.Define(Companies, actor.Spec[Company]{},
			actor.On(Open, (*Company).open), actor.OnQuery(Show, Company.show),
			actor.OnSchedule(Nightly, (*Company).night), actor.OnRun(Closing, closeBooks)),
		actor.Define(Tenants, actor.Spec[Tenant]{}, actor.On(Use, (*Tenant).use), actor.On(Meter, (*Tenant).meter)),
		actor.Define(Bills, actor.Spec[Bill]{}, actor.OnRun(Billing, p.bill)),
	}
}

func (c *Company) open(ctx *actor.Context, tenants []string) (actor.None, error) {
	c.Tenants = tenants
	return actor.None{}, Nightly.Set(ctx, actor.Rule{Cron: "0 2 * * *"}, actor.None{})
}

// night begins a run. If that of the night before is not over, this fails, and the schedule tries
// again until it is.
func (c *Company) night(ctx *actor.Context, _ actor.None) error {
	_, err := Closing.Start(ctx, Night{Date: ctx.Tick().Due.UTC().Format("2006-01-02")}, handle.Replace())
	return err
}

func (c Company) show(*actor.ReadContext, actor.None) (Company, error) { return c, nil }

// closeBooks has a bill made for each tenant, by runs in actors of their own, a few at a time. A
// tenant whose bill cannot be made does not keep the others from theirs.
func closeBooks(ctx workflow.Context, night Night) (Report, error) {
	// What the run works on is read once, and recorded: tenants that come later are for the next
	// night.
	tenants, err := actor.UpdateState(ctx, "tenants", func(c *Company, _ *actor.Context) ([]string, error) {
		return slices.Clone(c.Tenants), nil
	})
	if err != nil {
		return Report{}, err
	}
	sums, err := workflow.ForEach(ctx, "bills", tenants, func(ctx workflow.Context, _ int, tenant string) (int, error) {
		child, err := actor.SpawnRun(ctx, "bill", Billing, []string{tenant, night.Date}, Night{night.Date, tenant})
		if err != nil {
			return 0, err
		}
		return child.Result(ctx)
	}, workflow.Concurrency(atOnce))
	report := Report{Date: night.Date, Bills: len(tenants)}
	var failed *workflow.JoinError
	switch {
	case errors.As(err, &failed):
		for _, f := range failed.Failed {
			report.Failed = append(report.Failed, f.Error())
		}
		report.Bills -= len(failed.Failed)
	case err != nil:
		return Report{}, err
	}
	for _, cents := range sums {
		report.Cents += cents
	}
	_, err = actor.UpdateState(ctx, "report", func(c *Company, _ *actor.Context) (actor.None, error) {
		c.Reports = append(c.Reports, report)
		return actor.None{}, nil
	})
	return report, err
}

// bill makes a bill.
func (p press) bill(ctx workflow.Context, night Night) (int, error) {
	used, err := actor.CallStep(ctx, "meter", Meter, []string{night.Tenant}, night.Date)
	if err != nil {
		return 0, err
	}
	text := fmt.Sprintf("%s, %s: %d.%02d", night.Tenant, night.Date, used/100, used%100)
	if err := workflow.Do(ctx, "print", func(sc *workflow.StepCtx) error { return p(sc, text) }); err != nil {
		return 0, err
	}
	return actor.UpdateState(ctx, "file", func(b *Bill, _ *actor.Context) (int, error) {
		b.Text = text
		return used, nil
	})
}

func (t *Tenant) use(_ *actor.Context, cents int) (actor.None, error) {
	t.Used += cents
	return actor.None{}, nil
}

// meter answers the same for the same date, however often it is asked.
func (t *Tenant) meter(_ *actor.Context, date string) (int, error) {
	if t.On == date {
		return t.Read, nil
	}
	if t.Used == 0 {
		return 0, actor.Errorf(actor.FailedPrecondition, "nothing was used")
	}
	t.On, t.Read, t.Used = date, t.Used, 0
	return t.Read, nil
}
