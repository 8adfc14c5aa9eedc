//go:build linux

package workloads

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// createBridged makes the next container of an instance and leaves it there
// before its program is started, with its init waiting, and gives the init's
// process id.
func createBridged(t *testing.T, runc string, r *runcInstance) (pid int) {
	t.Helper()
	if err := r.Prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.dir, "init.pid")
	cmd := exec.Command(runc, "--root", r.stateRoot(), "create", "--pid-file", file, "--bundle", r.bundle, r.id)
	if err := cmd.Run(); err != nil { // no pipes: its init would keep them open
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(string(b)); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestRuncBridgeReachesTheContainer(t *testing.T) {
	path := requireRunc(t)
	r := runcFor(t, "bridge")
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := createBridged(t, path, r)
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	for _, name := range []string{"lo", "eth0"} {
		l, err := inside.LinkByName(name)
		if err != nil || l.Attrs().Flags&net.FlagUp == 0 {
			t.Errorf("%s: %v, %v; want it up", name, l, err)
		}
	}
	want, gateway, err := addressOf(r.bridge.Gateway, engineID(1))
	if err != nil {
		t.Fatal(err)
	}
	routes, err := inside.RouteGet(net.IPv4(192, 0, 2, 1))
	if err != nil || len(routes) != 1 || !routes[0].Gw.Equal(gateway) || !routes[0].Src.Equal(want.IP) {
		t.Errorf("route out: %v, %v; want from %v by %v", routes, err, want, gateway)
	}
	// Nothing listens there: that it says so takes links, addresses and routes
	// of both sides.
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp4", net.JoinHostPort(want.IP.String(), "1"))
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("connecting to the container: %v, want %v", err, unix.ECONNREFUSED)
	}

	link := r.link
	if !hasLink(link) {
		t.Errorf("no link %s", link)
	}
	if out, err := exec.Command(path, "--root", r.stateRoot(), "delete", "--force", r.id).CombinedOutput(); err != nil {
		t.Errorf("delete: %v: %s", err, out)
	}
	if hasLink(link) {
		t.Errorf("link %s has outlived the container", link)
	}
}

func TestRuncBridgeExitCode(t *testing.T) {
	requireRunc(t)
	r := runcFor(t, "bridge")
	r.exitCode = 7
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := runOperation(t, r, 1); !reflect.DeepEqual(out, Outcome{Units: 1, ExitCode: 7}) {
		t.Errorf("%+v, want exit code 7", out)
	}
}

// The operation fails with the reason of the hook and leaves nothing.
func TestRuncHookFails(t *testing.T) {
	requireRunc(t)
	r := runcFor(t, "bridge")
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.dir, bridgeFile)); err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	out, err := r.Do(t.Context(), 1)
	if err == nil || !strings.Contains(err.Error(), bridgeFile) {
		t.Errorf("%+v, %v; want an error that names %s", out, err, bridgeFile)
	}
	id, link := r.id, r.link
	if err := r.Conclude(t.Context(), 1, out); err != nil {
		t.Errorf("conclude: %v", err)
	}
	if left := leftOf(r.stateRoot(), id, link); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// runc is killed as soon as the link is there: its poststop hook never runs.
func TestRuncKilledWithALink(t *testing.T) {
	path := requireRunc(t)
	r := runcFor(t, "bridge")
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for op, caught := 1, false; !caught; op++ {
		if op > 20 {
			t.Fatal("runc was never caught halfway")
		}
		if err := r.Prepare(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "--root", r.stateRoot(), "run", "--bundle", r.bundle, r.id)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for running := true; running && !hasLink(r.link); {
			select {
			case err := <-ended:
				ended <- err
				running = false
			default:
				runtime.Gosched()
			}
		}
		_ = cmd.Process.Kill() // it may have ended: then it was not caught
		caught = <-ended != nil
		id, link := r.id, r.link
		if err := r.Conclude(t.Context(), op, Outcome{}); err != nil {
			t.Errorf("conclude: %v", err)
		}
		if left := leftOf(r.stateRoot(), id, link); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if out := runOperation(t, r, 100); !reflect.DeepEqual(out, Outcome{Units: 1}) {
		t.Errorf("the next operation: %+v", out)
	}
}

func TestRuncRemovesLinksOfDeadRuns(t *testing.T) {
	path := requireRunc(t)
	dead := runcFor(t, "bridge")
	dead.owner = deadOwner(t)
	// As its Setup does, which would take its folder for a dead run's at once
	// if it ran again.
	if err := dead.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	createBridged(t, path, dead)
	dir, bundle := dead.dir, dead.bundle
	if got := links(t, dir); len(got) != 2 {
		t.Fatalf("links %q, want a bridge and a veth", got)
	}

	r := runcFor(t, "bridge")
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertNoRunc(t, dead.owner, dir, bundle)
	if got := links(t, r.dir); len(got) != 1 {
		t.Errorf("links %q of the run that is alive, want its bridge", got)
	}
	dead.dir, dead.bundle, dead.id, dead.link = "", "", "", ""
}

// links lists the host's interfaces of a state folder.
func links(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/class/net/st*" + linkTag(dir) + "*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRuncRefusesOtherNetworks(t *testing.T) {
	requireRunc(t)
	for network, want := range map[string]string{"": "bridge", "none": "none", "bridge": "bridge", "host": "host", "macvlan": ""} {
		r, err := newOCIInstance(ociRuntimes()[0], Params{"network": network})
		if (err == nil) != (want != "") || err == nil && r.network != want {
			t.Errorf("network %q: %v, want %q", network, err, want)
		}
	}
}

func TestHookRefuses(t *testing.T) {
	dir := t.TempDir()
	creating := `{"ociVersion":"1.0.2","id":"x","status":"creating","pid":1,"bundle":"/b"}`
	for _, c := range []struct{ id, state, want string }{
		{"c1", creating, bridgeFile},
		{"", creating, "not a file name"},
		{"../c1", creating, "not a file name"},
		{"c1", "", "container state"},
		{"c1", `{"status":"creating"}`, "process id 0"},
		{"c1", `{"status":"running","pid":1}`, `"running"`},
	} {
		if err := runHookOn(strings.NewReader(c.state), dir, c.id); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("container %q, state %s: %v, want %q", c.id, c.state, err, c.want)
		}
	}
	for _, text := range []string{"", "{", `{"Name":"x"}`} {
		if err := os.WriteFile(filepath.Join(dir, bridgeFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readBridge(dir); err == nil {
			t.Errorf("%q passes for the bridge %+v", text, b)
		}
	}
	// A pair that was never made is gone.
	if err := runHookOn(strings.NewReader(`{"status":"stopped"}`), dir, "c1"); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

func FuzzReadHookState(f *testing.F) {
	f.Add(`{"ociVersion":"1.0.2","id":"x","status":"creating","pid":12,"bundle":"/b"}`)
	f.Add(`{"status":"stopped"}`)
	f.Add(`{"status":"creating","pid":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readHookState(strings.NewReader(text))
		if err == nil && s.Status != specs.StateStopped && s.Pid <= 0 {
			t.Errorf("%s: process id %d", text, s.Pid)
		}
	})
}
