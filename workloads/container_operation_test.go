package workloads

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"stagetrace/tracer/tracetest"
)

// engineCase is a target with the parameters that it is tested with.
type engineCase struct {
	target string
	params Params
}

// requireTarget asks that a target of container-start can run here, or else
// skips the test; where CI says that there has to be one, it fails.
func requireTarget(t *testing.T, name string) Target {
	t.Helper()
	if testing.Short() {
		t.Skip("starts containers")
	}
	target, ok := containerStart().LookupTarget(name)
	if !ok {
		t.Fatalf("no target %s", name)
	}
	var err error
	if f := target.Find(t.Context()); !f.OK {
		err = errors.New(f.Why)
	}
	tracetest.Require(t, name, err)
	return target
}

// operationCases are all ways to all engines.
func operationCases() []engineCase {
	return []engineCase{
		{"docker", Params{"path": "api"}},
		{"docker", Params{"path": "cli"}},
		{"podman", Params{"path": "cli"}},
		{"podman", Params{"path": "api"}},
		{"containerd", Params{"path": "cli"}},
		{"nerdctl", Params{"path": "cli"}},
		{"runc", Params{}},
		{"crun", Params{}},
	}
}

// prepareEngine gives an engine what it needs to be tested.
func prepareEngine(t *testing.T, c engineCase) {
	if c.target == podmanName {
		podmanOfItsOwn(t, c.params["path"] == "api")
	}
}

func TestContainerOperations(t *testing.T) {
	for _, c := range operationCases() {
		name := c.target
		if p := c.params["path"]; p != "" {
			name += "/" + p
		}
		t.Run(name, func(t *testing.T) {
			prepareEngine(t, c)
			target := requireTarget(t, c.target)
			for _, op := range []string{"run", "run-detached", "start", "exec", "pause", "unpause"} {
				t.Run(op, func(t *testing.T) {
					p := Params{"op": op, "network": "none", "mounts": "1"}
					for k, v := range c.params {
						p[k] = v
					}
					in, err := target.New(p)
					if err != nil {
						t.Fatal(err)
					}
					carryOut(t, in, 2)
				})
			}
		})
	}
}

// carryOut runs an instance from its set-up to its clean-up. Every operation
// must succeed.
func carryOut(t *testing.T, in Instance, times int) {
	t.Helper()
	results, err := Run(context.Background(), []Running{{Target: t.Name(), Instance: in}}, Plan{Untraced: times}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != times {
		t.Fatalf("%d operations", len(results))
	}
	for _, r := range results {
		if r.Err != nil || r.ExitCode != 0 || r.Units != 1 {
			t.Errorf("operation %d: %+v", r.Index, r)
		}
	}
}

// podmanOfItsOwn makes podman keep everything in folders of the test, and
// starts its service when it is wanted.
func podmanOfItsOwn(t *testing.T, service bool) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("podman of a virtual machine")
	}
	tracetest.RequireRoot(t)
	path, err := exec.LookPath(podmanName)
	tracetest.Require(t, podmanName, err)
	// podman refuses a runroot of more than 50 characters, but only where nobody
	// reads the message: when it cleans up after a container.
	dir, err := os.MkdirTemp("", "stp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// podman's service leaves its graph mounted over itself. Whether more than
		// that is left shows in the removal.
		_ = exec.Command("umount", filepath.Join(dir, "graph/overlay")).Run()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	conf := filepath.Join(dir, "storage.conf")
	writeFile(t, conf, "[storage]\ndriver = \"overlay\"\ngraphroot = \""+filepath.Join(dir, "graph")+"\"\nrunroot = \""+filepath.Join(dir, "run")+"\"\n")
	t.Setenv("CONTAINERS_STORAGE_CONF", conf)
	socket := filepath.Join(dir, "podman.sock")
	t.Setenv("CONTAINER_HOST", "unix://"+socket)
	if service {
		startPodmanService(t, path, socket)
	}
}

// startPodmanService starts podman's API service and waits until it answers.
func startPodmanService(t *testing.T, path, socket string) {
	t.Helper()
	global, _, _ := podmanFlags()
	cmd := exec.Command(path, append(global, "system", "service", "--time=0", "unix://"+socket)...)

	said := t.Output()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-ended
	})
	for {
		if _, err := listening([]string{socket}); err == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("podman's service ended: %v", err)
		default:
			runtime.Gosched()
		}
	}
}
