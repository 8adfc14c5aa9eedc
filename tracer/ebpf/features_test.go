//go:build linux

package ebpf

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stagetrace/tracer"
)

var update = flag.Bool("update-features", false, "rewrite the golden files of features")

// rootFacts is a machine where everything but the hardware counters works.
func rootFacts() *facts {
	f := &facts{caps: 1<<41 - 1, unprivilegedBPF: "2", paranoid: "2", lockdown: "none", tracefs: "/sys/kernel/tracing",
		cgroups: "v2", tried: map[string]error{}}
	for _, a := range attempts {
		f.tried[a.name] = nil
	}
	f.tried[FeatureHardware] = syscall.ENOENT
	return f
}

func fail(f *facts, err error, names ...string) {
	for _, n := range names {
		f.tried[n] = err
	}
}

func failAll(f *facts, err error) {
	for n := range f.tried {
		f.tried[n] = err
	}
}

var madeUp = []struct {
	name string
	make func() *facts
}{
	{"root", rootFacts},
	{"no-trampolines", func() *facts {
		f := rootFacts()
		fail(f, fmt.Errorf("attach tracing: %w", syscall.Errno(524)), FeatureFentry)
		fail(f, errors.New("requires >= v5.18: not found"), FeatureKprobe)
		return f
	}},
	{"no-caps", func() *facts {
		f := rootFacts()
		f.caps, f.tracefs = 0, ""
		failAll(f, fmt.Errorf("MEMLOCK may be too low, consider rlimit.RemoveMemlock: %w", syscall.EPERM))
		f.kallsyms = &tracer.UnsupportedError{Feature: "kernel symbols", Needs: "sysctl kernel.kptr_restrict=0, or 1 and CAP_SYSLOG"}
		return f
	}},
	{"caps-without-sys-admin", func() *facts {
		f := rootFacts()
		f.caps = 1<<capBPF | 1<<capPerfmon
		fail(f, syscall.EPERM, FeatureStats)
		return f
	}},
	{"bpf-without-perfmon", func() *facts {
		f := rootFacts()
		f.caps = 1 << capBPF
		failAll(f, syscall.EPERM)
		fail(f, nil, FeatureRingBuffer, FeatureTaskStorage)
		return f
	}},
	{"seccomp", func() *facts {
		f := rootFacts()
		f.seccomp, f.container = true, true
		failAll(f, syscall.EPERM)
		return f
	}},
	{"seccomp-lets-bpf-through", func() *facts {
		f := rootFacts()
		f.seccomp = true
		fail(f, syscall.ENOSYS, FeatureMmap, FeatureBuildIDs, FeatureCPUClock)
		fail(f, syscall.EPERM, FeatureFentry)
		return f
	}},
	{"lockdown", func() *facts {
		f := rootFacts()
		f.lockdown = "confidentiality"
		failAll(f, syscall.EPERM)
		fail(f, nil, FeatureRingBuffer, FeatureTaskStorage)
		return f
	}},
	{"no-btf", func() *facts {
		f := rootFacts()
		f.btf = os.ErrNotExist
		fail(f, fmt.Errorf("requires >= v4.18: %w", os.ErrNotExist), FeatureTpBTF, FeatureTaskIterator, FeatureFentry)
		return f
	}},
	{"no-tracefs", func() *facts {
		f := rootFacts()
		f.tracefs, f.cgroups = "", ""
		return f
	}},
	{"container", func() *facts {
		f := rootFacts()
		f.pidNS, f.container, f.cgroups = true, true, "hybrid"
		return f
	}},
	{"user-namespace", func() *facts {
		f := rootFacts()
		f.userNS = true
		failAll(f, syscall.EPERM)
		return f
	}},
	{"time-namespace", func() *facts {
		f := rootFacts()
		f.monotonicOffset = "-3600.5"
		return f
	}},
}

func text(fs []tracer.Feature) string {
	var b strings.Builder
	for _, f := range fs {
		if f.Err == nil {
			fmt.Fprintf(&b, "ok  %s\n", f.Name)
			continue
		}
		fmt.Fprintf(&b, "--  %s\n    lost: %s\n", f.Err, f.Cost)
		if f.Hint != "" {
			fmt.Fprintf(&b, "    try: %s\n", f.Hint)
		}
	}
	fmt.Fprintf(&b, "\nrequired: %v\n", Required(fs))
	return b.String()
}

func TestFeatureText(t *testing.T) {
	for _, tc := range madeUp {
		t.Run(tc.name, func(t *testing.T) {
			got := text(decide(tc.make()))
			file := filepath.Join("testdata", "features", tc.name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What a line says must hold for every line, whatever the facts.
func TestFeatureLines(t *testing.T) {
	for _, tc := range madeUp {
		for _, f := range decide(tc.make()) {
			if f.Name == "" || f.Cost == "" {
				t.Errorf("%s: %+v: no name or no cost", tc.name, f)
			}
			if f.Err == nil {
				continue
			}
			var u *tracer.UnsupportedError
			if !errors.As(f.Err, &u) || u.Needs == "" || u.Feature != f.Name {
				t.Errorf("%s: %v is no proper UnsupportedError", tc.name, f.Err)
			}
			for _, guess := range []string{"MEMLOCK", "requires >="} {
				if strings.Contains(f.Err.Error(), guess) {
					t.Errorf("%s: passes a guess on: %v", tc.name, f.Err)
				}
			}
		}
	}
}

func TestRequired(t *testing.T) {
	if err := Required(nil); !errors.Is(err, tracer.ErrUnsupported) {
		t.Errorf("nothing tried gives %v", err)
	}
	for _, tc := range madeUp {
		err := Required(decide(tc.make()))
		if err != nil && !errors.Is(err, tracer.ErrUnsupported) {
			t.Errorf("%s: %v is not ErrUnsupported", tc.name, err)
		}
		if err != nil && strings.Count(err.Error(), "\n") > 1 {
			t.Errorf("%s: more than two lines: %v", tc.name, err)
		}
	}
}

func TestFactsOfText(t *testing.T) {
	status := []byte("Name:\tx\nCapEff:\t000000c000200000\nSeccomp:\t2\n")
	if got := statusHex(status, "CapEff"); got != 1<<capBPF|1<<capPerfmon|1<<capSysAdmin {
		t.Errorf("CapEff %#x", got)
	}
	if got := statusField(status, "Seccomp"); got != "2" {
		t.Errorf("Seccomp %q", got)
	}
	for in, want := range map[string]string{
		"none [integrity] confidentiality\n": "integrity", "[none] integrity\n": "none", "": "", "none [integ": "",
	} {
		if got := bracketed([]byte(in)); got != want {
			t.Errorf("bracketed(%q) = %q", in, got)
		}
	}
	for in, want := range map[string]string{
		"monotonic           0         0\nboottime            0         0\n": "",
		"monotonic  86400 0\n":         "86400",
		"monotonic  -3600 500000000\n": "-3600.5",
		"monotonic\n":                  "",
		"":                             "",
	} {
		if got := timeOffset([]byte(in)); got != want {
			t.Errorf("timeOffset(%q) = %q, want %q", in, got, want)
		}
	}
}

const ordinaryUser = "STAGETRACE_TEST_FEATURES"

// Features runs as whoever we are, and, from root, as an ordinary user.
func TestFeatures(t *testing.T) {
	fs := Features(t.Context())
	out := text(fs)
	if os.Getenv(ordinaryUser) != "" {
		fmt.Println(out)
		return
	}
	t.Log("\n" + out)
	if len(fs) < len(conditions)+len(attempts) {
		t.Errorf("%d lines", len(fs))
	}
	if os.Getuid() != 0 {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^TestFeatures$", "-test.v")
	f, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.ExtraFiles = []*os.File{f} // the build folder may be closed to others
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), ordinaryUser+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, b)
	}
	if s := string(b); !strings.Contains(s, "required: capabilities: needs CAP_BPF and CAP_PERFMON") {
		t.Errorf("as an ordinary user:\n%s", s)
	}
}

// A cancelled context tries nothing, and says so.
func TestFeaturesCancelled(t *testing.T) {
	f := rootFacts()
	f.tried = map[string]error{}
	if err := Required(decide(f)); !errors.Is(err, tracer.ErrUnsupported) {
		t.Errorf("Required = %v", err)
	}
}
