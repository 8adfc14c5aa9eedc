//go:build linux

// Command vmtest boots a Linux kernel in qemu with test binaries of this
// repository inside, runs them there as the first process's children, and fails
// when one fails, skips a test, or never ends.
//
// The guest has no disk and no network: an initial file system holds this
// program as init, the trace binary, the test binaries with their testdata, and
// the modules that the tests need. Results come back over the second serial
// port, the kernel's own messages over the first.
//
//	vmtest [flags] JOB...
//
// A job is a row of the table jobs; none named means all. It needs
// qemu-system-x86_64, a static busybox and, unless -kernel names an image,
// apt-get and dpkg-deb, which fetch a kernel package and take it apart. Where
// /dev/kvm boots the image, KVM is used, else TCG.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if os.Getpid() == 1 {
		runInit()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	kernel  string // image, or a pattern of kernel packages
	modules string // the tree of the image's modules
	cache   string // where packages are kept
	accel   string // auto, kvm, tcg
	memory  int    // MiB
	timeout time.Duration
	boots   int // tries to boot
	verbose bool
	list    bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var opt options
	fs := flag.NewFlagSet("vmtest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&opt.kernel, "kernel", "6.12", "a kernel image, or the beginning of the version of a Debian package")
	fs.StringVar(&opt.modules, "modules", "", "the folder of the image's modules (lib/modules/VERSION); a package has its own")
	fs.StringVar(&opt.cache, "cache", "", "where kernel packages are kept (default: the user's cache)")
	fs.StringVar(&opt.accel, "accel", "auto", "auto, kvm or tcg")
	fs.IntVar(&opt.memory, "memory", 2048, "of the guest, in MiB")
	fs.DurationVar(&opt.timeout, "timeout", 12*time.Minute, "for everything in the guest")
	fs.IntVar(&opt.boots, "boots", 3, "how often to try when the guest does not come up")
	fs.BoolVar(&opt.verbose, "v", false, "show the kernel's messages, too")
	fs.BoolVar(&opt.list, "list", false, "list the jobs")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if opt.list {
		for _, j := range jobs {
			fmt.Fprintf(stdout, "%-14s %s\n", j.Name, j.about)
		}
		return 0
	}
	picked, err := pick(fs.Args())
	if err != nil {
		fmt.Fprintln(stderr, "vmtest:", err)
		return 2
	}
	if err := vmtest(ctx, opt, picked, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "vmtest:", err)
		return 1
	}
	return 0
}

// vmtest does the whole: kernel, initial file system, guest, verdict.
func vmtest(ctx context.Context, opt options, jobs []job, stdout, stderr io.Writer) error {
	k, err := findKernel(ctx, opt, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "vmtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	initrd := filepath.Join(dir, "initrd.gz")
	if err := buildInitrd(ctx, initrd, dir, k, jobs); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "vmtest: %s, %d jobs\n", k.name, len(jobs))
	g := &guest{opt: opt, kernel: k, initrd: initrd, out: stdout, log: stderr}
	got, err := g.boot(ctx)
	return errors.Join(err, verdict(jobs, got))
}

// verdict wants every job to have ended well, with no test skipped.
func verdict(want []job, got map[string]outcome) error {
	var errs []error
	for _, j := range want {
		o, ok := got[j.Name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s never began", j.Name))
		case !o.ended:
			errs = append(errs, fmt.Errorf("%s never ended", j.Name))
		case o.code != 0:
			errs = append(errs, fmt.Errorf("%s: exit code %d", j.Name, o.code))
		}
		if len(o.skipped) > 0 {
			errs = append(errs, fmt.Errorf("%s: skipped %s", j.Name, strings.Join(o.skipped, ", ")))
		}
		if ok && o.ended && j.Package != "" && o.passed == 0 {
			errs = append(errs, fmt.Errorf("%s: no test ran", j.Name))
		}
	}
	return errors.Join(errs...)
}
