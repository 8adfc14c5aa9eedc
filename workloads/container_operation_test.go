package workloads

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
		{"builtin", Params{}},
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
					if errors.Is(err, errors.ErrUnsupported) {
						t.Skip(err)
					}
					if err != nil {
						t.Fatal(err)
					}
					carryOut(t, in, 2)
					assertNothingOfOurs(t)
				})
			}
			t.Run("left paused", func(t *testing.T) { leavePaused(t, target, c.params) })
		})
	}
}

// leavePaused ends a run whose container is frozen: it has to go all the same.
func leavePaused(t *testing.T, target Target, params Params) {
	t.Helper()
	p := params.clone()
	p["op"], p["network"] = "pause", "none"
	in, err := target.New(p)
	if err != nil {
		t.Fatal(err)
	}
	// The builtin engine's container dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := in.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Do(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := in.Cleanup(t.Context()); err != nil {
		t.Error(err)
	}
	assertNothingOfOurs(t)
}

// TestNetworks starts containers with the networks that clients make.
func TestNetworks(t *testing.T) {
	for _, c := range []struct{ target, network string }{
		{podmanName, "bridge"}, {podmanName, "host"}, {"containerd", "host"}, {"nerdctl", "bridge"}, {"nerdctl", "host"},
	} {
		t.Run(c.target+"/"+c.network, func(t *testing.T) {
			prepareEngine(t, engineCase{c.target, Params{"path": "cli"}})
			target := requireTarget(t, c.target)
			in, err := target.New(Params{"path": "cli", "network": c.network})
			if err != nil {
				t.Fatal(err)
			}
			carryOut(t, in, 2)
			assertNothingOfOurs(t)
		})
	}
	// What cannot be is refused before anything is touched.
	target, _ := containerStart().LookupTarget("containerd")
	if _, err := target.New(Params{"network": "bridge"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a bridge by ctr: %v", err)
	}
}

func TestContainersInParallel(t *testing.T) {
	const n = 3
	for _, name := range []string{"builtin", "docker", "runc"} {
		t.Run(name, func(t *testing.T) {
			requireTarget(t, name)
			target, _ := containerStart().LookupTarget(name)
			in, err := target.New(Params{"network": "bridge", "parallel": "3"})
			if err != nil {
				t.Fatal(err)
			}
			results, err := Run(t.Context(), []Running{{Target: name, Instance: in}}, Plan{Untraced: 2}, nil, nil)
			if err != nil || len(results) != 2 {
				t.Fatalf("%d operations, %v", len(results), err)
			}
			for _, r := range results {
				if r.Err != nil || r.Units != n {
					t.Errorf("%+v, want %d containers", r, n)
				}
			}
		})
	}
	target, _ := containerStart().LookupTarget("builtin")
	for _, bad := range []string{"0", "-1", "x", "65"} {
		if _, err := target.New(Params{"parallel": bad}); err == nil {
			t.Errorf("%s containers at the same time are not refused", bad)
		}
	}
}

// assertNothingOfOurs wants no cgroup, mount, link or state folder of this
// process. Containers are each engine's to list, which its own clean-up does.
func assertNothingOfOurs(t *testing.T) {
	t.Helper()
	o, err := currentOwner()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup/*" + o.Run() + "*", "/sys/fs/cgroup/*/*" + o.Run() + "*", "/run/stagetrace/*/" + o.Key() + "*",
		"/var/lib/stagetrace/*" + o.Run() + "*", filepath.Join(os.TempDir(), "stagetrace-*"+o.Run()+"*"),
		filepath.Join(os.TempDir(), "stagetrace-stderr-*"),
	} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// A run that died in the middle left containers, images and namespaces. The
// next set-up of the same engine takes them away.
func TestClientsRemoveLeftoversOfDeadRuns(t *testing.T) {
	for _, c := range []engineCase{{podmanName, Params{"path": "cli"}}, {"containerd", Params{"path": "cli"}}, {"nerdctl", Params{"path": "cli"}}} {
		t.Run(c.target, func(t *testing.T) {
			prepareEngine(t, c)
			target := requireTarget(t, c.target)
			p := Params{"op": "exec", "network": "none", "path": "cli"}
			in, err := target.New(p)
			if err != nil {
				t.Fatal(err)
			}
			dead := in.(*operationInstance)
			driver := dead.driver.(*cliInstance)
			owner := driver.owner
			haunt(driver, deadOwner(t))
			if err := dead.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			name := driver.container.name
			if there, err := driver.engine.exists(t.Context(), name); err != nil || !there {
				t.Fatalf("container %s: %v, %v", name, there, err)
			}
			haunt(driver, owner) // who looks is alive
			next, err := target.New(p)
			if err != nil {
				t.Fatal(err)
			}
			carryOut(t, next, 1)
			if there, err := driver.engine.exists(t.Context(), name); err == nil && there {
				t.Errorf("container %s of a dead run is still there", name)
			}
			if err := driver.process.close(); err != nil {
				t.Error(err)
			}
			assertNothingOfOurs(t)
		})
	}
}

// The service and the command share podman's images: the last user of ours
// takes it away, whichever way.
func TestPodmanSharesItsImage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts containers")
	}
	podmanOfItsOwn(t, true)
	target := requireTarget(t, podmanName)
	var list []Instance
	for _, p := range []Params{{"path": "api", "network": "none"}, {"path": "cli", "network": "none"}, {"path": "api", "network": "host"}} {
		in, err := target.New(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		list = append(list, in)
	}
	for i, in := range list {
		if out := runOperation(t, in, 1); out.Units != 1 {
			t.Errorf("after the clean-up of %d others: %+v", i, out)
		}
		if err := in.Cleanup(t.Context()); err != nil {
			t.Error(err)
		}
	}
	engine := list[1].(*cliInstance).engine.(*dockerLike)
	images, err := engine.images(t.Context())
	if err != nil || len(images) != 0 {
		t.Errorf("left behind: %v, %v", images, err)
	}
}

// haunt makes an instance, before its set-up, that of another process; after
// it, the instance looks at what it made with that process's eyes.
func haunt(c *cliInstance, o runOwner) {
	c.owner = o
	rename := func(s string) string { return strings.Replace(s, ownerOf(s), o.Key(), 1) }
	if c.opened {
		rename = func(s string) string { return s }
	}
	c.prefix = rename(c.prefix)
	switch e := c.engine.(type) {
	case *dockerLike:
		e.owner, e.prefix, e.mark = o, rename(e.prefix), rename(e.mark)
	case *ctrEngine:
		e.owner, e.namespace = o, rename(e.namespace)
		e.inside.args[len(e.inside.args)-1] = e.namespace
	}
}

// ownerOf finds the owner's key in a name.
func ownerOf(s string) string {
	return regexp.MustCompile(`\d+-\d+-[0-9a-f]{8}-[0-9a-f]{8}`).FindString(s)
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
		awaitProcesses(t, dir)
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

// awaitProcesses waits until no process is at work in a folder: conmon has
// podman clean up after a container when it has long been reported as ended.
// Those of commands that were run by the API would stay for five minutes more,
// in case somebody asks for the exit code; they are ended.
func awaitProcesses(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		busy := slices.ContainsFunc(files, func(f string) bool {
			b, err := os.ReadFile(f)
			if err != nil || !bytes.Contains(b, []byte(dir)) {
				return false
			}
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			if err == nil && bytes.Contains(b, []byte("conmon\x00")) && bytes.Contains(b, []byte("--exit-delay")) {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill() // it may have gone
				}
			}
			return true
		})
		if !busy {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are still at work in %s", dir)
			return
		}
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
