package main

import (
	"slices"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestDeadMessagesAreListedSentAgainAndDeleted(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{
		host.SendDeadList: host.SendListOutput{More: true, Messages: []host.DeadMessage{{
			ID: 5242880, Type: "ledger", Key: []string{"a/b"}, Method: "book", Input: host.Raw(`{"cents":700}`), Attempts: 16,
			Sent: epoch, Died: epoch, Code: host.FailedPrecondition, Error: "the account\nis closed",
		}}},
		host.SendDeadRequeue: host.CountOutput{Count: 1}, host.SendDeadDelete: host.CountOutput{Count: 3},
	})
	url := n.serve(t, "")
	same(t, at(t, url, "send", "dead", "list", "cell/acme", "--limit=1"), 0, ""+
		"ID       TO            METHOD  ATTEMPTS  SENT                  DIED                  ERROR                                        INPUT\n"+
		"5242880  ledger/a%2Fb  book    16        2026-11-21T12:00:00Z  2026-11-21T12:00:00Z  failed_precondition: the account\\nis closed  {\"cents\":700}\n",
		"there are more: --after 5242880 or --limit 0 lists them\n")
	same(t, at(t, url, "send", "dead", "requeue", "cell/acme", "--all"), 0, "requeued 1 message\n", "")
	same(t, at(t, url, "send", "dead", "delete", "cell/acme", "5242880", "--json"), 0, `{"count":3}`+"\n", "")
	if r := at(t, url, "send", "dead", "delete", "cell/acme", "--all"); r.status != 2 {
		t.Errorf("all are deleted without --yes: %+v", r)
	}
	if r := at(t, url, "send", "dead", "requeue", "cell/acme"); r.status != 2 {
		t.Errorf("it is not said which: %+v", r)
	}
	if got := slices.Concat(n.asked(host.SendDeadRequeue), n.asked(host.SendDeadDelete)); !slices.Equal(got, []string{
		`cell/acme {"all":true}`, `cell/acme {"ids":[5242880]}`}) {
		t.Errorf("%q", got)
	}
}
