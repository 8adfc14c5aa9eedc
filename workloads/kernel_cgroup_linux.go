//go:build amd64 || arm64

package workloads

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freezerController is the hierarchy of cgroup v1 that the primitives work in:
// the one that can freeze, since the others differ from it in nothing that
// these calls do.
const freezerController = cgroupRoot + "/freezer"

// cgroupVersion is one version of cgroups, and where it is mounted.
type cgroupVersion struct {
	name string // cgroup2, cgroup1
	dir  func() (string, error)
}

func cgroupVersions() []cgroupVersion {
	return []cgroupVersion{
		{"cgroup2", func() (string, error) {
			mounts, err := cgroupMounts()
			if err == nil && (len(mounts) == 0 || !mounts[0].unified) {
				err = errors.New("no hierarchy of cgroup v2 is mounted")
			}
			if err != nil {
				return "", err
			}
			return mounts[0].dir, nil
		}},
		{"cgroup1", func() (string, error) {
			if _, err := os.Stat(filepath.Join(freezerController, "cgroup.procs")); err != nil || unifiedCgroups() {
				return "", errors.New("no cgroup v1 at " + freezerController)
			}
			return freezerController, nil
		}},
	}
}

func cgroupPrimitives() []primitive {
	var all []primitive
	for _, v := range cgroupVersions() {
		needs := func() error { _, err := v.dir(); return err }
		add := func(name, summary string, f func(*cgroupBench) *steps) {
			all = append(all, primitive{name: v.name + "-" + name, summary: summary, needs: needs,
				open: func(w *bench) (*steps, error) { return newCgroupSteps(v, w, f) }})
		}
		add("mkdir", "make a cgroup", func(c *cgroupBench) *steps { return &steps{do: c.make, after: c.remove} })
		add("attach", "move a process into a cgroup", func(c *cgroupBench) *steps {
			return &steps{before: c.makeAndSleep, do: c.attach, after: c.removeAll}
		})
		add("rmdir", "remove a cgroup", func(c *cgroupBench) *steps { return &steps{before: c.make, do: c.remove} })
		add("freeze", "freeze a cgroup of one process, until it is frozen", func(c *cgroupBench) *steps {
			return &steps{before: c.makeAttached, do: c.freeze, after: func() error { return errors.Join(c.thaw(), c.removeAll()) }}
		})
		add("thaw", "thaw a cgroup of one process", func(c *cgroupBench) *steps {
			return &steps{before: func() error { return errors.Join(c.makeAttached(), c.freeze()) }, do: c.thaw, after: c.removeAll}
		})
	}
	born := cgroupVersions()[0]
	return append(all, primitive{name: "cgroup2-born", summary: "clone3 with CLONE_INTO_CGROUP: a child born in a cgroup, its exit and the wait",
		needs: func() error { _, err := born.dir(); return err },
		open: func(w *bench) (*steps, error) {
			return newCgroupSteps(born, w, func(c *cgroupBench) *steps {
				return &steps{before: c.make, do: c.birth, after: c.remove}
			})
		}})
}

// cgroupBench is a cgroup and a process to put into it.
type cgroupBench struct {
	dir   string
	child *sleeper
}

// newCgroupSteps works below a cgroup that has the state folder's name.
func newCgroupSteps(v cgroupVersion, w *bench, f func(*cgroupBench) *steps) (*steps, error) {
	root, err := v.dir()
	if err != nil {
		return nil, err
	}
	parent := filepath.Join(root, filepath.Base(w.dir))
	if err := os.Mkdir(parent, 0o755); err != nil {
		return nil, err
	}
	c := &cgroupBench{dir: filepath.Join(parent, "c")}
	return f(c), nil
}

func (c *cgroupBench) make() error   { return os.Mkdir(c.dir, 0o755) }
func (c *cgroupBench) remove() error { return removeCgroup(c.dir) }
func (c *cgroupBench) attach() error { return moveToCgroup(c.dir, c.child.pid) }
func (c *cgroupBench) freeze() error { return freezeCgroup(c.dir, true) }
func (c *cgroupBench) thaw() error   { return freezeCgroup(c.dir, false) }

func (c *cgroupBench) makeAndSleep() (err error) {
	if err = c.make(); err == nil {
		c.child, err = startSleeper(-1)
	}
	return err
}

func (c *cgroupBench) makeAttached() error {
	if err := c.makeAndSleep(); err != nil {
		return err
	}
	return c.attach()
}

func (c *cgroupBench) removeAll() error {
	var err error
	if c.child != nil {
		err = c.child.end()
		c.child = nil
	}
	return errors.Join(err, c.remove())
}

func (c *cgroupBench) birth() error {
	fd, err := unix.Open(c.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: c.dir, Err: err}
	}
	defer unix.Close(fd)
	return forkAndWait(exitProgram(), 0, fd)
}
