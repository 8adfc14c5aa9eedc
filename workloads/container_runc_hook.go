//go:build linux

package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
)

// runc makes no networks: who calls it has them made by hooks of the bundle.
// Ours is this program, as createRuntime and as poststop, so that making and
// removing the veth pair is part of `runc run` as it is of an engine's start.

// hookRole names the hook among the parts of engines.
const hookRole = "hook"

// bridgeFile is the file of a state folder that holds its engineBridge.
const bridgeFile = "bridge.json"

// maxHookState bounds what is read of a container's state, which has some
// hundred bytes and the bundle's annotations, of which there are none.
const maxHookState = 1 << 20

// runcRoles lists what runc starts this program as.
func runcRoles() []engineRole {
	return []engineRole{{name: hookRole, main: runcHook}}
}

// runcHook makes a container's network before its program is started, and
// removes it once the container is stopped. The state on standard input says
// which; a code other than 0 makes runc fail, with standard error in its log.
func runcHook(dir, id string) int {
	debug.SetGCPercent(-1) // it lives for milliseconds
	if err := runHookOn(os.Stdin, dir, id); err != nil {
		fmt.Fprintf(os.Stderr, "network of %s: %v\n", id, err)
		return 1
	}
	return 0
}

func runHookOn(stdin io.Reader, dir, id string) error {
	if id == "" || filepath.Base(id) != id {
		return fmt.Errorf("container name %q: not a file name", id)
	}
	state, err := readHookState(stdin)
	if err != nil {
		return err
	}
	if state.Status == specs.StateStopped {
		return deleteLinkNamed(vethName(dir, id))
	}
	bridge, err := readBridge(dir)
	if err != nil {
		return err
	}
	_, err = vethPair{dir: dir, id: id, bridge: bridge}.connect(state.Pid)
	return err
}

// readHookState reads the state that a hook is given (OCI runtime
// specification, "State"): of a container that is being created (crun says
// created), with the process id of its init, or of one that is stopped,
// without.
func readHookState(r io.Reader) (specs.State, error) {
	var s specs.State
	b, err := io.ReadAll(io.LimitReader(r, maxHookState))
	if err != nil {
		return s, fmt.Errorf("container state: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("container state: %w", err)
	}
	switch {
	case s.Status == specs.StateStopped:
	case s.Status != specs.StateCreating && s.Status != specs.StateCreated:
		return s, fmt.Errorf("container state %q: want %s, %s or %s", s.Status, specs.StateCreating, specs.StateCreated, specs.StateStopped)
	case s.Pid <= 0:
		return s, fmt.Errorf("container state %s with process id %d", s.Status, s.Pid)
	}
	return s, nil
}

// runcHooks are the bundle's hooks for the container id of a state folder.
func runcHooks(exe, dir, id string) *specs.Hooks {
	h := []specs.Hook{{Path: exe, Args: []string{"trace", engineCommand, hookRole, dir, id}}}
	return &specs.Hooks{CreateRuntime: h, Poststop: h}
}

// setupBridge makes the bridge of a state folder and writes down for the hook
// what it is.
func setupBridge(dir string) (engineBridge, error) {
	b, err := makeBridge(dir)
	if err != nil {
		return b, err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	return b, os.WriteFile(filepath.Join(dir, bridgeFile), text, 0o600)
}

func readBridge(dir string) (engineBridge, error) {
	var b engineBridge
	path := filepath.Join(dir, bridgeFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	if b.Index <= 0 {
		return b, fmt.Errorf("%s: no bridge", path)
	}
	return b, nil
}

// deleteLinkNamed deletes a link that may be gone: the namespace of the other
// end takes it along.
func deleteLinkNamed(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return deleteLink(link.Attrs().Index)
}
