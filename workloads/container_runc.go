//go:build linux

package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// runcStateDir holds one folder per instance, named <owner key>-<n>, with
// runc's state root and a link to the bundle. It is on a tmpfs, where runc
// wants its state.
const runcStateDir = "/run/stagetrace/runc"

// runcInstance starts containers with `runc run`, or another runtime's, on one
// bundle.
type runcInstance struct {
	runtime  ociRuntime
	network  string
	mounts   int
	exitCode byte
	process  quietProcess
	owner    runOwner

	exe     string       // this program, which is the bundle's hook
	apart   *mountsApart // what the runtime is started in; nil: here
	dir     string       // below runcStateDir; "" before Setup
	bridge  engineBridge // zero unless the network is bridge
	bundle  string
	link    string // name of the host's end of the veth pair of the operation under way; "" without
	id      string // of the container of the operation under way, and its cgroup's name
	options runcOptions
}

func newOCI(rt ociRuntime, p Params) (Instance, error) {
	r, err := newOCIInstance(rt, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rt.name, err)
	}
	return withOperation(p, r)
}

func newOCIInstance(rt ociRuntime, p Params) (*runcInstance, error) {
	r := &runcInstance{runtime: rt, network: orDefault(p["network"], "bridge")}
	if !slices.Contains([]string{"none", "bridge", "host"}, r.network) {
		return nil, fmt.Errorf("network %q: want none, bridge or host", r.network)
	}
	var err error
	if r.mounts, err = mountCount(p); err != nil {
		return nil, err
	}
	if r.exe, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	path, err := exec.LookPath(rt.name)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	r.process = quietProcess{path: path, env: os.Environ()}
	if r.owner, err = currentOwner(); err != nil {
		return nil, err
	}
	return r, nil
}

// Setup removes what dead runs left and writes the bundle.
func (r *runcInstance) Setup(ctx context.Context) error {
	if err := r.removeLeftovers(ctx); err != nil {
		return err
	}
	v, err := askOCI(ctx, r.runtime, r.process.path)
	if err != nil {
		return err
	}
	if err := r.makeDirs(); err != nil {
		return fmt.Errorf("%s: %w", r.runtime.name, err)
	}
	if r.network == "bridge" && r.bridge.Name == "" {
		if r.bridge, err = setupBridge(r.dir); err != nil {
			return fmt.Errorf("%s: %w", r.runtime.name, err)
		}
	}
	if r.runtime.unifiedApart && hybridCgroups() && r.apart == nil {
		if r.apart, err = newMountsApart(unifiedMount); err != nil {
			return fmt.Errorf("%s: %w", r.runtime.name, err)
		}
		r.process.start = r.apart.start
	}
	r.options = runcOptions{network: r.network, seccomp: v.seccomp, unifiedCgr: unifiedCgroups(), program: probeProgram,
		mounts: r.mounts}
	program := exitELF(runtime.GOARCH, r.exitCode)
	if program == nil {
		return fmt.Errorf("%s: probe program for %s: %w", r.runtime.name, runtime.GOARCH, errors.ErrUnsupported)
	}
	if err := writeBundle(r.bundle, runcSpec(r.options), program); err != nil {
		return err
	}
	if err := r.process.open(); err != nil {
		return fmt.Errorf("%s: %w", r.runtime.name, err)
	}
	return nil
}

// makeDirs makes the instance's state folder and its bundle's. The bundle is
// not below /run, which may be mounted noexec; the link says where it is
// before it is there, so that nothing can be lost.
func (r *runcInstance) makeDirs() error {
	if r.dir != "" {
		return nil
	}
	dir, err := makeRuncDir(r.owner.Key())
	if err != nil {
		return err
	}
	r.dir = dir
	bundle := filepath.Join(os.TempDir(), bundlePrefix+filepath.Base(r.dir))
	if err := os.Symlink(bundle, filepath.Join(r.dir, "bundle")); err != nil {
		return err
	}
	if err := os.Mkdir(bundle, 0o700); err != nil {
		return err
	}
	r.bundle = bundle
	var st unix.Statfs_t
	if err := unix.Statfs(bundle, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", bundle, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is on a file system mounted noexec: set TMPDIR to one that is not", bundle)
	}
	return nil
}

// makeRuncDir makes a folder <key>-<n> below runcStateDir. Another run that
// ends meanwhile may take the parent away, or another instance the name.
func makeRuncDir(key string) (string, error) {
	const tries = 1000
	for n := 1; n <= tries; n++ {
		if err := os.MkdirAll(runcStateDir, 0o711); err != nil {
			return "", err
		}
		dir := filepath.Join(runcStateDir, fmt.Sprintf("%s-%d", key, n))
		err := os.Mkdir(dir, 0o700)
		if err == nil || !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return dir, err
		}
	}
	return "", fmt.Errorf("no free name for %s below %s", key, runcStateDir)
}

// Prepare names the container and its cgroup.
func (r *runcInstance) Prepare(ctx context.Context, op int) error {
	return r.adopt(ctx, op, probeProgram)
}

func (r *runcInstance) adopt(ctx context.Context, op int, program string) error {
	if r.bundle == "" || r.process.null == nil {
		return errors.New(r.runtime.name + ": not set up")
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.id = fmt.Sprintf("%s-%d", r.prefix(), op)
	// Absolute: a relative one would be put below runc's own cgroup.
	r.options.cgroup = "/" + r.id
	r.options.program = program
	if r.network == "bridge" {
		r.link = vethName(r.dir, engineID(op))
		r.options.hooks = runcHooks(r.exe, r.dir, engineID(op))
	}
	if err := writeBundleConfig(r.bundle, runcSpec(r.options)); err != nil {
		return err
	}
	return r.process.reset()
}

// prefix begins the names of this instance's containers and cgroups.
func (r *runcInstance) prefix() string { return runcPrefix(filepath.Base(r.dir)) }

// runcPrefix makes stagetrace-<pid>-<starttime>-<n> of <pid>-<starttime>-<host>-<boot>-<n>.
func runcPrefix(instance string) string {
	o, err := parseOwner(instance)
	if err != nil {
		return cgroupPrefix + instance
	}
	return cgroupPrefix + o.Run() + strings.TrimPrefix(instance, o.Key())
}

// Do is one `runc run`: it returns when the container is deleted. The exit
// code is the container's, or 1 when runc itself failed, which it then logs.
func (r *runcInstance) Do(ctx context.Context, op int) (Outcome, error) {
	code, err := r.call(ctx, "run", "--bundle", r.bundle, r.id)
	if err != nil {
		return Outcome{ExitCode: code}, err
	}
	return Outcome{Units: 1, ExitCode: code}, nil
}

// call runs the runtime. Its error is the runtime's own; a code other than 0
// without one is the container's.
func (r *runcInstance) call(ctx context.Context, args ...string) (int, error) {
	code, err := r.process.run(ctx, append([]string{"--root", r.stateRoot(), "--log-format", "json"}, args...)...)
	if err == nil && code != 0 {
		if msg := runcError(r.process.message()); msg != "" {
			err = errors.Join(fmt.Errorf("%s %s: %s", r.runtime.name, args[0], msg), r.process.reset())
		}
	}
	return code, err
}

func (r *runcInstance) stateRoot() string { return filepath.Join(r.dir, "state") }

// Conclude checks that state, cgroups and link are gone, and removes them when
// they are not.
func (r *runcInstance) Conclude(ctx context.Context, op int, out Outcome) error {
	if r.id == "" {
		return nil
	}
	id, left := r.id, leftOf(r.stateRoot(), r.id, r.link)
	if err := r.settle(ctx); err != nil {
		return err
	}
	if len(left) > 0 && out.Units > 0 {
		return fmt.Errorf("container %s: %s left %s", id, r.runtime.name, strings.Join(left, ", "))
	}
	return nil
}

// settle removes what the last operation may have left.
func (r *runcInstance) settle(ctx context.Context) error {
	if r.id == "" {
		return nil
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if len(leftOf(r.stateRoot(), r.id, r.link)) > 0 {
		if err := removeRuncContainer(ctx, r.process.path, r.stateRoot(), r.id); err != nil {
			return err
		}
		if r.link != "" { // when runc was killed its hook has not run
			if err := deleteLinkNamed(r.link); err != nil {
				return err
			}
		}
	}
	r.id, r.link = "", ""
	return nil
}

// Cleanup removes everything of this instance and of dead runs.
func (r *runcInstance) Cleanup(ctx context.Context) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	errs := []error{r.settle(ctx)}
	if r.dir != "" {
		errs = append(errs, removeRuncDir(ctx, r.process.path, r.dir))
		r.dir, r.bundle, r.bridge = "", "", engineBridge{}
	}
	err := errors.Join(append(errs, r.removeLeftovers(ctx), r.process.close(), r.apart.close())...)
	r.apart, r.process.start = nil, nil
	for _, dir := range []string{runcStateDir, filepath.Dir(runcStateDir)} {
		_ = os.Remove(dir) // unless others use it: then it is not empty
	}
	return err
}

// removeLeftovers removes everything of dead runs.
func (r *runcInstance) removeLeftovers(ctx context.Context) error {
	dirs, err := os.ReadDir(runcStateDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", r.runtime.name, err)
	}
	var errs []error
	for _, d := range dirs {
		if o, err := parseOwner(d.Name()); err == nil && o.DeadTo(r.owner) {
			errs = append(errs, removeRuncDir(ctx, r.process.path, filepath.Join(runcStateDir, d.Name())))
		}
	}
	return errors.Join(errs...)
}
