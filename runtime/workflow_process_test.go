package runtime_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// asNode in the environment makes TestNodeInAProcessOfItsOwn a node on the directory that it names, whose run does what
// nodeWay says. With nodeMend it resumes the run, whose step ends the process if that says so, and whose function does not.
const (
	asNode   = "CAIRN_TEST_NODE"
	nodeWay  = "CAIRN_TEST_WAY"
	nodeMend = "CAIRN_TEST_MEND"
)

const exited = 3

// blast ends the process as the claim says.
func blast(ctx workflow.Context, c claim) (string, error) {
	switch c.How {
	case "after a timer and a step":
		if err := workflow.Sleep(ctx, "nap", 10*time.Millisecond); err != nil {
			return "", err
		}
		mend := os.Getenv(nodeMend)
		err := workflow.Do(ctx, "step", func(*workflow.StepCtx) error {
			if mend == "the step dies" {
				os.Exit(exited)
			}
			return nil
		})
		if err != nil || mend != "" {
			return "mended", err
		}
	case "never":
		_, err := workflow.Receive(ctx, "paper", office.papers)
		return "", err
	}
	os.Exit(exited)
	return "", nil
}

// TestNodeInAProcessOfItsOwn is the node of the tests below.
func TestNodeInAProcessOfItsOwn(t *testing.T) {
	dir, how := os.Getenv(asNode), os.Getenv(nodeWay)
	if dir == "" {
		t.Skip("it runs as the child of other tests")
	}
	does(how, blast)
	o := deskOptions(dir)
	o.TurnGrace = 2 * time.Minute // Close waits that long for what has to sync a busy disk
	rt, err := runtime.Open(t.Context(), o)
	must(t, err)
	startClaim(t, rt, "a", how)
	if os.Getenv(nodeMend) != "" && claimStatus(t, rt, "a").Pause != nil {
		must(t, office.at(rt, "a").Resume(t.Context()))
	}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		st := claimStatus(t, rt, "a")
		switch {
		case st.State.Over():
			fmt.Printf("%s: %+v\n", st.State, st.Failure)
			must(t, rt.Close())
			return
		case st.Pause != nil:
			must(t, errOf(office.order.Call(t.Context(), office.typ.Ref(rt, "a"), order{}))) // the node serves
			fmt.Printf("paused %s: %s\n", st.Pause.Reason, st.Pause.Text)
			must(t, rt.Close())
			return
		case how == "never" && len(st.Waiting) == 1:
			os.Exit(exited)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the run neither ended the process nor was paused")
}

// nodeProcess runs the node until its process ends, and returns what it printed. died reports that its run ended it.
func nodeProcess(t *testing.T, dir, how, mend string) (out string, died bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNodeInAProcessOfItsOwn$", "-test.v")
	cmd.Env = append(os.Environ(), asNode+"="+dir, nodeWay+"="+how, nodeMend+"="+mend)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exited {
		return string(b), true
	}
	fatalIf(t, err != nil, "%v\n%s", err, b)
	return string(b), false
}

// A function that ends the process takes the node down at most four times after a start: then its run is paused, and the node
// serves. Only an operator lets the run go on.
func TestFunctionThatEndsTheProcessIsPausedAfterFourStarts(t *testing.T) {
	for _, how := range []string{"at once", "after a timer and a step"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, deaths := t.TempDir(), 0
			for {
				out, died := nodeProcess(t, dir, how, "")
				if !died {
					errorIf(t, !strings.Contains(out, "paused crashing: the process has ended 4 times in a row while the workflow function ran"),
						"after %d deaths: %s", deaths, out)
					break
				}
				// The first is not counted: the run had just begun. The step did not end the process, so its attempts are not used up.
				if deaths++; deaths > 5 {
					t.Fatalf("the node died %d times", deaths)
				}
			}
			if how == "at once" {
				errorIf(t, deaths != 5, "the node died %d times, want once at the beginning and after four starts", deaths)
				return
			}
			// It stays paused at the next start, too, which follows an orderly end.
			if out, died := nodeProcess(t, dir, how, ""); died || !strings.Contains(out, "paused crashing") {
				t.Errorf("died %v: %s", died, out)
			}
			// The deaths were the function's fault. So the step has attempts left, of which the process may cut one off.
			if out, died := nodeProcess(t, dir, how, "the step dies"); !died {
				t.Fatal(out)
			}
			if out, died := nodeProcess(t, dir, how, "mended"); died || !strings.Contains(out, "completed") {
				t.Errorf("died %v: %s", died, out)
			}
		})
	}
}

// Processes that end while a run only waits are no reason to pause it.
func TestRunThatWaitsIsNotBlamedForTheEndOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	for range 6 {
		if out, died := nodeProcess(t, dir, "never", ""); !died {
			t.Fatal(out)
		}
	}
}
