//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// namespaceKind is one kind of namespace, as /proc/PID/ns has it.
type namespaceKind struct {
	name, file string // file: where setns leads back to
	flag       int
}

// namespaceKinds are those that a thread of a program with several can leave
// and return to. To user and time namespaces it cannot return (EUSERS).
func namespaceKinds() []namespaceKind {
	return []namespaceKind{
		{"uts", "uts", unix.CLONE_NEWUTS},
		{"ipc", "ipc", unix.CLONE_NEWIPC},
		{"net", "net", unix.CLONE_NEWNET},
		{"cgroup", "cgroup", unix.CLONE_NEWCGROUP},
		{"pid", "pid", unix.CLONE_NEWPID},
		{"mnt", "mnt", unix.CLONE_NEWNS},
	}
}

func nsPrimitives() []primitive {
	var all []primitive
	together := namespaceKinds()
	for _, k := range together {
		all = append(all, primitive{name: "ns-" + k.name, summary: "unshare: a new " + k.name + " namespace",
			needs: func() error { return hasNamespaces(k) },
			open:  func(*bench) (*steps, error) { return unshareSteps(k) }})
	}
	return append(all,
		primitive{name: "ns-all", summary: "unshare: a new namespace of each of these kinds, in one call",
			needs: func() error { return hasNamespaces(together...) },
			open:  func(*bench) (*steps, error) { return unshareSteps(together...) }},
		primitive{name: "ns-enter", summary: "setns: enter another network namespace and come back", open: enterSteps})
}

func hasNamespaces(kinds ...namespaceKind) error {
	for _, k := range kinds {
		if _, err := os.Stat("/proc/self/ns/" + k.file); err != nil {
			return fmt.Errorf("this kernel has no %s namespaces: %w", k.name, err)
		}
	}
	return nil
}

// home is a thread's namespaces, to return to.
type home struct {
	kinds []namespaceKind
	files []*os.File
	cwd   *os.File
}

func openHome(kinds []namespaceKind) (*home, error) {
	// A mount namespace can be entered only with a working directory of one's own.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("leave the shared working directory: %w", err)
	}
	h := &home{kinds: kinds}
	var err error
	if h.cwd, err = os.Open("."); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		f, err := os.Open("/proc/thread-self/ns/" + k.file)
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.files = append(h.files, f)
	}
	return h, nil
}

// enter makes the thread a member of these namespaces again.
func (h *home) enter() error {
	for i, k := range h.kinds {
		if err := unix.Setns(int(h.files[i].Fd()), k.flag); err != nil {
			return fmt.Errorf("return to the %s namespace: %w", k.name, err)
		}
	}
	return unix.Fchdir(int(h.cwd.Fd()))
}

func (h *home) close() error {
	errs := []error{h.cwd.Close()}
	for _, f := range h.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func unshareSteps(kinds ...namespaceKind) (*steps, error) {
	flags := 0
	for _, k := range kinds {
		flags |= k.flag
	}
	h, err := openHome(kinds)
	if err != nil {
		return nil, err
	}
	return &steps{do: func() error { return unix.Unshare(flags) }, after: h.enter, close: h.close}, nil
}

func enterSteps(*bench) (*steps, error) {
	kinds := []namespaceKind{{"net", "net", unix.CLONE_NEWNET}}
	h, err := openHome(kinds)
	if err != nil {
		return nil, err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, errors.Join(err, h.close())
	}
	other, err := os.Open("/proc/thread-self/ns/net")
	if err = errors.Join(err, h.enter()); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return &steps{
		do:    func() error { return errors.Join(unix.Setns(int(other.Fd()), unix.CLONE_NEWNET), h.enter()) },
		close: func() error { return errors.Join(other.Close(), h.close()) },
	}, nil
}
