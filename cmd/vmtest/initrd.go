//go:build linux

package main

import (
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// The files that init reads.
const (
	jobsFile      = "jobs.json"
	modulesFolder = "modules"
)

// guestJob is what init is told of a job.
type guestJob struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Dir  string   `json:"dir"`
	Args []string `json:"args"`
}

// buildInitrd builds the programs and packs them with what they need. dir is
// for the builds.
func buildInitrd(ctx context.Context, file, dir string, k *kernel, jobs []job) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	mods, err := k.loadable()
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	a := &archive{w: cpio.NewWriter(z), made: map[string]bool{}}
	for i, m := range mods {
		a.file(fmt.Sprintf("%s/%02d-%s.ko", modulesFolder, i, m.name), 0o644, m.data)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	a.file("init", 0o755, self)
	shell, err := staticShell()
	if err != nil {
		return err
	}
	a.file("bin/busybox", 0o755, shell)
	if err := a.programs(ctx, root, dir, jobs); err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	for _, c := range []interface{ Close() error }{a.w, z, out} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// programs adds the trace binary, the test binaries, their testdata and the
// list of jobs.
func (a *archive) programs(ctx context.Context, root, dir string, jobs []job) error {
	list := []guestJob{}
	trace := job{}
	if err := a.build(ctx, root, dir, &trace); err != nil {
		return err
	}
	for i := range jobs {
		j := &jobs[i]
		list = append(list, guestJob{Name: j.Name, Path: j.binaryName(), Dir: j.dir(), Args: j.Args})
		if j.Package == "" {
			continue
		}
		if err := a.build(ctx, root, dir, j); err != nil {
			return err
		}
		a.dirs("src/" + j.Package + "/x")
		if err := a.tree(filepath.Join(root, j.Package, "testdata"), path.Join("src", j.Package, "testdata")); err != nil {
			return err
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	a.file(jobsFile, 0o644, b)
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// staticShell is a busybox that runs without libraries, for the sh, sleep and
// true that tests start.
func staticShell() ([]byte, error) {
	name, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w (Debian has it in busybox-static)", err)
	}
	f, err := elf.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs libraries: install a static one (Debian's busybox-static)", name)
		}
	}
	return os.ReadFile(name)
}

// build adds a static program. Building one again costs nothing.
func (a *archive) build(ctx context.Context, root, dir string, j *job) error {
	name := j.binaryName()
	if a.made[name] {
		return nil
	}
	file := filepath.Join(dir, path.Base(name))
	args := []string{"build", "-trimpath", "-o", file, "./cmd/trace"}
	if j.Package != "" {
		args = []string{"test", "-c", "-o", file, "./" + j.Package}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	a.file(strings.TrimPrefix(name, "/"), 0o755, b)
	a.made[name] = true
	return nil
}

// archive is an initial file system in the making: newc entries, as
// Documentation/driver-api/early-userspace/buffer-format.rst has them. The first
// error stays.
type archive struct {
	w    *cpio.Writer
	made map[string]bool
	err  error
}

// dirs adds the folders above a file.
func (a *archive) dirs(name string) {
	if d := path.Dir(name); d != "." && !a.made[d] {
		a.dirs(d)
		a.made[d] = true
		a.add(&cpio.Header{Name: d, Mode: cpio.TypeDir | 0o755}, nil)
	}
}

func (a *archive) file(name string, mode cpio.FileMode, data []byte) {
	a.dirs(name)
	a.add(&cpio.Header{Name: name, Mode: cpio.TypeReg | mode, Size: int64(len(data))}, data)
}

func (a *archive) add(h *cpio.Header, data []byte) {
	if a.err != nil {
		return
	}
	if a.err = a.w.WriteHeader(h); a.err == nil {
		_, a.err = a.w.Write(data)
	}
}

// tree adds a folder with everything in it; one that is not there is empty.
func (a *archive) tree(from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return nil
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		a.file(path.Join(to, filepath.ToSlash(rel)), 0o644, b)
		return a.err
	})
}
