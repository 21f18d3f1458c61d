package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// imports returns a node whose actor cell/acme has a run with a recording, and what it was asked to import, by actor.
func imports(t *testing.T) (url string, got map[string]host.WorkflowImportInput) {
	n := newFakeNode()
	got = map[string]host.WorkflowImportInput{}
	n.respond(map[string]any{
		host.WorkflowExport: func(r host.Request) (any, error) {
			if !r.Existing || r.Key[0] != "acme" {
				return nil, host.Errorf(host.NotFound, "the actor has no workflow run")
			}
			return host.WorkflowRecording{Recording: []byte("recorded\n")}, nil
		},
		host.WorkflowImport: func(r host.Request) (any, error) {
			if r.Existing {
				t.Error("import demands that the actor exists")
			}
			var in host.WorkflowImportInput
			if err := json.Unmarshal(r.Input, &in); err != nil {
				t.Error(err)
			}
			got[formatAddress(r.Type, r.Key)] = in
			return host.RunStarted{Run: "6f0c", Started: true}, nil
		},
	})
	return n.serve(t, ""), got
}

func TestRunIsMadeOfARecording(t *testing.T) {
	url, got := imports(t)
	file := filepath.Join(t.TempDir(), "acme.run")
	if err := os.WriteFile(file, []byte("recorded\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same(t, at(t, url, "workflow", "import", "cell/copy", file, "--up-to", "1503", "--replace"), 0, "cell/copy: run 6f0c\n", "")
	if in := got["cell/copy"]; string(in.Recording) != "recorded\n" || in.UpTo != "1503" || !in.Replace {
		t.Errorf("%+v", in)
	}
	r := runCommand(t, "piped\n", map[string]string{"CAIRN_URL": url}, "workflow", "import", "cell/piped", "-", "--json")
	same(t, r, 0, `{"run":"6f0c","started":true}`+"\n", "")
	if in := got["cell/piped"]; string(in.Recording) != "piped\n" || in.UpTo != "" || in.Replace {
		t.Errorf("%+v", in)
	}
	if r := at(t, url, "workflow", "import", "cell/copy", file+".not"); r.status != 2 || len(got) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRunIsForkedToAnotherActor(t *testing.T) {
	url, got := imports(t)
	same(t, at(t, url, "workflow", "fork", "cell/acme", "cell/copy", "--up-to", "1503"), 0, "cell/copy: run 6f0c\n", "")
	if in := got["cell/copy"]; string(in.Recording) != "recorded\n" || in.UpTo != "1503" || in.Replace {
		t.Errorf("%+v", in)
	}
	if r := at(t, url, "workflow", "fork", "cell/other", "cell/copy2"); r.status == 0 || len(got) != 1 {
		t.Errorf("%+v", r)
	}
	if r := at(t, url, "workflow", "fork", "cell/acme", "not an actor"); r.status != 2 || len(got) != 1 {
		t.Errorf("%+v", r)
	}
}
