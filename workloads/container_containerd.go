package workloads

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const containerdInstall = "apt-get install containerd"

// containerdTargets are the clients of containerd.
func containerdTargets() []Target {
	return []Target{
		{
			Name:    "containerd",
			Summary: "containerd, by its own client ctr (no bridge network)",
			Find:    findContainerd,
			New:     newContainerd,
		},
		{
			Name:    "nerdctl",
			Summary: "containerd, by nerdctl",
			Find:    findNerdctl,
			New:     newNerdctl,
		},
	}
}

// containerdSockets are the places where containerd listens, its own before
// the one of a Docker daemon that started one for itself.
func containerdSockets(e dockerEnv) []string {
	if a := e.getenv("CONTAINERD_ADDRESS"); a != "" {
		return []string{a}
	}
	at := []string{"/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock"}
	if d := e.getenv("XDG_RUNTIME_DIR"); d != "" {
		at = append(at, filepath.Join(d, "containerd/containerd.sock"))
	}
	return at
}

// listening is the first of the sockets that somebody listens on.
func listening(sockets []string) (string, error) {
	var errs []error
	for _, s := range sockets {
		c, err := net.DialTimeout("unix", s, time.Second)
		if err == nil {
			return s, c.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return "", fmt.Errorf("no socket at %s", strings.Join(sockets, ", "))
}

// findClientOf finds a client and the containerd that it would talk to.
func findClientOf(ctx context.Context, name, install string, version ...string) Found {
	client, err := newCLIClient(name)
	if err != nil {
		return notOnPath(name, install)
	}
	lines, err := client.ask(ctx, version...)
	if err != nil || len(lines) == 0 {
		return Found{Where: client.path, Why: fmt.Sprintf("%s does not say its version: %v", name, err), Hint: name + " --version"}
	}
	f := Found{Where: client.path, Version: strings.Join(strings.Fields(lines[0]), " ")}
	socket, err := listening(containerdSockets(osDockerEnv()))
	switch {
	case errors.Is(err, fs.ErrPermission):
		f.State, f.Why, f.Hint = NotAllowed, err.Error(), "sudo -E trace run --workload container-start --target "+name
	case err != nil:
		f.State, f.Why, f.Hint = NotRunning, err.Error(), "containerd &"
	default:
		f.OK, f.Where = true, socket
	}
	return f
}

func findContainerd(ctx context.Context) Found {
	return findClientOf(ctx, "ctr", containerdInstall, "--version")
}

func newContainerd(p Params) (Instance, error) {
	if orDefault(p["network"], "bridge") == "bridge" {
		return nil, fmt.Errorf("containerd: ctr makes no bridge network: %w", errors.ErrUnsupported)
	}
	socket, err := listening(containerdSockets(osDockerEnv()))
	if err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	client, err := newCLIClient("ctr", "--address", socket)
	if err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	c, err := newCLIInstance("containerd", client, p, func(owner runOwner, prefix string) cliEngine {
		inside := client
		inside.args = append(slices.Clone(client.args), "--namespace", prefix)
		return &ctrEngine{client: client, inside: inside, owner: owner, namespace: prefix}
	})
	if err != nil {
		return nil, err
	}
	return withOperation(p, c)
}

// ctrEngine is containerd, by ctr. Everything of an instance is in a
// containerd namespace of its own, which goes with it.
type ctrEngine struct {
	client, inside cliClient // without and within the namespace
	owner          runOwner
	namespace      string
}

func (e *ctrEngine) arguments(v cliVerb, c cliContainer) []string {
	made := func(verb ...string) []string {
		if c.network == "host" {
			verb = append(verb, "--net-host")
		}
		for i := range c.mounts {
			verb = append(verb, "--mount", "type=bind,src="+mountSource+",dst="+mountTarget(i)+",options=rbind:ro")
		}
		return append(verb, c.image, c.name, c.program)
	}
	args := map[cliVerb]func() []string{
		verbRun:     func() []string { return made("run", "--rm", "--null-io") },
		verbLaunch:  func() []string { return made("run", "--detach", "--null-io") },
		verbCreate:  func() []string { return made("containers", "create") },
		verbStart:   func() []string { return []string{"tasks", "start", "--detach", "--null-io", c.name} },
		verbExec:    func() []string { return []string{"tasks", "exec", "--exec-id", "exec", c.name, c.program} },
		verbPause:   func() []string { return []string{"tasks", "pause", c.name} },
		verbUnpause: func() []string { return []string{"tasks", "resume", c.name} },
	}
	return slices.Concat(e.inside.args, args[v]())
}

func (e *ctrEngine) open(ctx context.Context, probe probeImage) (string, error) {
	_, err := e.inside.give(ctx, probe.Archive, "images", "import", "-")
	return "docker.io/library/" + probe.Tag, err
}

func (e *ctrEngine) exists(ctx context.Context, name string) (bool, error) {
	names, err := e.inside.ask(ctx, "containers", "list", "--quiet")
	return slices.Contains(names, name), err
}

func (e *ctrEngine) remove(ctx context.Context, name string) error {
	return removeTask(ctx, e.inside, name)
}

// removeTask ends a container's process and removes the container. What is
// gone already is no error; whether it is gone is looked at last.
func removeTask(ctx context.Context, c cliClient, name string) error {
	tasks, err := c.ask(ctx, "tasks", "list", "--quiet")
	if err != nil {
		return err
	}
	var ended error
	if slices.Contains(tasks, name) {
		_, ended = c.ask(ctx, "tasks", "delete", "--force", name)
	}
	names, err := c.ask(ctx, "containers", "list", "--quiet")
	if err != nil || !slices.Contains(names, name) {
		return err
	}
	if _, err = c.ask(ctx, "containers", "delete", name); err != nil {
		return errors.Join(ended, err)
	}
	return nil
}

func (e *ctrEngine) close(ctx context.Context) error { return e.removeNamespace(ctx, e.namespace) }

func (e *ctrEngine) sweep(ctx context.Context) error {
	all, err := e.client.ask(ctx, "namespaces", "list", "--quiet")
	errs := []error{err}
	for _, n := range all {
		if deadName(n, e.owner) {
			errs = append(errs, e.removeNamespace(ctx, n))
		}
	}
	return errors.Join(errs...)
}

// removeNamespace removes a namespace and all that is in it. Content and
// snapshots go with the image that they belong to (--sync waits for that); the
// folder that the containers' cgroups were in, containerd leaves.
func (e *ctrEngine) removeNamespace(ctx context.Context, name string) error {
	all, err := e.client.ask(ctx, "namespaces", "list", "--quiet")
	if err != nil || !slices.Contains(all, name) {
		return err
	}
	c := e.client
	c.args = append(slices.Clone(c.args), "--namespace", name)
	names, err := c.ask(ctx, "containers", "list", "--quiet")
	errs := []error{err}
	for _, n := range names {
		errs = append(errs, removeTask(ctx, c, n))
	}
	images, err := c.ask(ctx, "images", "list", "--quiet")
	errs = append(errs, err)
	for _, i := range images {
		_, err := c.ask(ctx, "images", "delete", "--sync", i)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if _, err = e.client.ask(ctx, "namespaces", "remove", name); err != nil {
		return err
	}
	return removeCgroupParent(name)
}

const nerdctlInstall = "brew install nerdctl, or a release from github.com/containerd/nerdctl"

func findNerdctl(ctx context.Context) Found {
	f := findClientOf(ctx, "nerdctl", nerdctlInstall, "--version")
	if f.OK {
		f.Note = strings.Join(nerdctlFlags()[2:], " ")
	}
	return f
}

// nerdctlFlags are the global arguments that nerdctl needs on a machine like
// this, after the address.
func nerdctlFlags() []string {
	socket, err := listening(containerdSockets(osDockerEnv()))
	if err != nil {
		socket = ""
	}
	args := []string{"--address", socket}
	if _, err := os.Stat("/run/systemd/private"); err != nil {
		args = append(args, "--cgroup-manager", "cgroupfs") // nobody to ask for scopes
	}
	const debian = "/usr/lib/cni"
	if _, err := os.Stat("/opt/cni/bin"); err != nil {
		if _, err := os.Stat(debian); err == nil {
			args = append(args, "--cni-path", debian)
		}
	}
	return args
}

func newNerdctl(p Params) (Instance, error) {
	client, err := newCLIClient("nerdctl", nerdctlFlags()...)
	if err != nil {
		return nil, fmt.Errorf("nerdctl: %w", err)
	}
	c, err := newCLIInstance("nerdctl", client, p, func(owner runOwner, prefix string) cliEngine {
		return &dockerLike{client: client, owner: owner, prefix: prefix,
			mark: markRepository + ":" + strings.TrimPrefix(prefix, cliPrefix)}
	})
	if err != nil {
		return nil, err
	}
	return withOperation(p, c)
}
