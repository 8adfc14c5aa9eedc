//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"
)

// kernel is an image to boot and the tree of its modules.
type kernel struct {
	name    string // of the package, or the image's path
	image   string
	modules string // "": everything is built in
}

// findKernel gives the image that -kernel names, or fetches the newest
// Debian package of a version and takes it apart into the cache.
func findKernel(ctx context.Context, opt options, progress io.Writer) (*kernel, error) {
	if strings.Contains(opt.kernel, "/") {
		if _, err := os.Stat(opt.kernel); err != nil {
			return nil, err
		}
		return &kernel{name: opt.kernel, image: opt.kernel, modules: opt.modules}, nil
	}
	cache := opt.cache
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		cache = filepath.Join(user, "stagetrace", "kernels")
	}
	name, err := newestPackage(ctx, opt.kernel)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, name)
	if k, err := unpacked(name, dir); err == nil {
		return k, nil
	}
	fmt.Fprintf(progress, "vmtest: fetching %s\n", name)
	if err := fetch(ctx, name, dir); err != nil {
		return nil, err
	}
	return unpacked(name, dir)
}

// kernelPackage are Debian's kernels for virtual machines: their drivers are
// few, and everything that is traced is as in the others.
var kernelPackage = regexp.MustCompile(`^linux-image-([0-9.]+[-+0-9a-z.]*)-cloud-amd64$`)

// newestPackage finds the newest kernel package of a version such as 6.1.
func newestPackage(ctx context.Context, version string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "pkgnames", "linux-image-"+version).Output()
	if err != nil {
		return "", fmt.Errorf("list kernel packages: %w (name an image by its path instead)", err)
	}
	var names []string
	for name := range strings.FieldsSeq(string(out)) {
		m := kernelPackage.FindStringSubmatch(name)
		if m != nil && strings.HasPrefix(m[1], version) && !strings.ContainsAny(m[1][len(version):min(len(version)+1, len(m[1]))], "0123456789") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("no package linux-image-%s*-cloud-amd64: apt-get update, or name an image by its path", version)
	}
	return slices.MaxFunc(names, compareVersions), nil
}

// compareVersions orders names by the numbers in them.
func compareVersions(a, b string) int {
	return slices.CompareFunc(numbers.FindAllString(a, -1), numbers.FindAllString(b, -1), func(x, y string) int {
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

var numbers = regexp.MustCompile(`[0-9]+`)

// fetch downloads a package and takes it apart, under another name until it
// is whole.
func fetch(ctx context.Context, name, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	get := exec.CommandContext(ctx, "apt-get", "download", "-q", name)
	get.Dir = tmp
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("download %s: %w\n%s", name, err, out)
	}
	files, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("download %s: %d files", name, len(files))
	}
	tree := filepath.Join(tmp, "tree")
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", files[0], tree).CombinedOutput(); err != nil {
		return fmt.Errorf("take %s apart: %w\n%s", name, err, out)
	}
	return os.Rename(tree, dir)
}

func unpacked(name, dir string) (*kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return nil, fmt.Errorf("%s: %d kernel images", dir, len(images))
	}
	trees, err := filepath.Glob(filepath.Join(dir, "lib", "modules", "*"))
	if err != nil || len(trees) != 1 {
		return nil, fmt.Errorf("%s: %d trees of modules", dir, len(trees))
	}
	return &kernel{name: name, image: images[0], modules: trees[0]}, nil
}

// wantedModules are what the tests use where it is not built in.
var wantedModules = []string{"overlay", "veth", "bridge", "loop", "tun"}

// module is one that init loads.
type module struct {
	name string
	data []byte
}

// loadable reads the wanted modules, what they depend on first.
func (k *kernel) loadable() ([]module, error) {
	if k.modules == "" {
		return nil, nil
	}
	files := map[string]string{}
	err := filepath.WalkDir(k.modules, func(name string, d fs.DirEntry, err error) error {
		if base, _, ok := strings.Cut(filepath.Base(name), ".ko"); err == nil && ok && !d.IsDir() {
			files[strings.ReplaceAll(base, "-", "_")] = name
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []module
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		file := files[name]
		if seen[name] || file == "" { // no file: built in
			return nil
		}
		seen[name] = true
		data, err := readModule(file)
		if err != nil {
			return err
		}
		needs, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		out = append(out, module{name, data})
		return nil
	}
	for _, name := range wantedModules {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readModule(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(file, ".xz") {
		return b, err
	}
	r, err := xz.NewReader(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return io.ReadAll(r)
}

// dependencies reads what a module says of itself in .modinfo (MODULE_INFO in
// include/linux/module.h): strings, one of which is depends=a,b.
func dependencies(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if v, ok := strings.CutPrefix(string(entry), "depends="); ok {
			return strings.FieldsFunc(strings.ReplaceAll(v, "-", "_"), func(r rune) bool { return r == ',' }), nil
		}
	}
	return nil, nil
}
