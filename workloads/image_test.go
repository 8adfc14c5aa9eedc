package workloads

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestExitELFRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runs on Linux only")
	}
	for _, code := range []byte{0, 1, 7, 127, 255} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, exitELF(runtime.GOARCH, code), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path)
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != int(code) {
			t.Errorf("exit code %d, want %d", got, code)
		}
	}
}

func TestTrueELFIsWellFormed(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch := range elfArches() {
		b := trueELF(arch)
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if f.Machine != machines[arch] || f.Type != elf.ET_EXEC || len(f.Progs) != 2 {
			t.Errorf("%s: machine %v, type %v, %d segments", arch, f.Machine, f.Type, len(f.Progs))
		}
		load, stack := f.Progs[0], f.Progs[1]
		if load.Filesz != uint64(len(b)) || load.Flags != elf.PF_R|elf.PF_X || load.Vaddr%load.Align != load.Off%load.Align {
			t.Errorf("%s: load segment %+v of a file of %d bytes", arch, load.ProgHeader, len(b))
		}
		if f.Entry < load.Vaddr || f.Entry >= load.Vaddr+load.Memsz {
			t.Errorf("%s: entry %#x is outside of the load segment", arch, f.Entry)
		}
		if stack.Type != elf.PT_GNU_STACK || stack.Flags&elf.PF_X != 0 {
			t.Errorf("%s: stack %+v", arch, stack.ProgHeader)
		}
		if len(b) > 256 {
			t.Errorf("%s: %d bytes", arch, len(b))
		}
	}
	if trueELF("pdp11") != nil {
		t.Error("an ELF for an unknown architecture")
	}
}

// arm64Text is what the program for arm64 must say: it cannot be run here.
func TestArm64Text(t *testing.T) {
	b := exitELF("arm64", 7)
	want := []byte{
		0xe0, 0x00, 0x80, 0xd2, // mov x0, #7
		0xc8, 0x0b, 0x80, 0xd2, // mov x8, #94
		0x01, 0x00, 0x00, 0xd4, // svc #0
	}
	if !bytes.HasSuffix(b, want) {
		t.Errorf("text % x, want % x", b[len(b)-len(want):], want)
	}
}

func TestProbeImageIsDeterministic(t *testing.T) {
	a, err := newProbeImage("amd64", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newProbeImage("amd64", 0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Tag != b.Tag || !bytes.Equal(a.Archive, b.Archive) {
		t.Error("two images of the same content differ")
	}
	// The tag names the content: it changes only when the image is meant to.
	if want := "stagetrace-probe:"; a.Tag[:len(want)] != want || len(a.Tag) != len(want)+12 {
		t.Errorf("tag %q", a.Tag)
	}
	seen := []string{a.Tag}
	for arch, code := range map[string]byte{"arm64": 0, "amd64": 7} {
		other, err := newProbeImage(arch, code)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(seen, other.Tag) {
			t.Errorf("%s exiting with %d has the tag of another image", arch, code)
		}
		seen = append(seen, other.Tag)
	}
	if _, err := newProbeImage("pdp11", 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("unknown architecture: %v", err)
	}
}

func TestProbeImageReadsBack(t *testing.T) {
	probe, err := newProbeImage("arm64", 0)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(probe.Tag)
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.Image(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(probe.Archive)), nil
	}, &tag)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.OS != "linux" || cfg.Architecture != "arm64" || !slices.Equal(cfg.Config.Cmd, []string{"/true"}) {
		t.Errorf("configuration %+v", cfg)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Name != "true" {
			continue
		}
		if b, err := io.ReadAll(tr); err != nil || !bytes.Equal(b, trueELF("arm64")) {
			t.Errorf("/true: %d bytes, %v", len(b), err)
		}
	}
	if want := []string{"dev/", "etc/", "proc/", "sys/", "pause", "true"}; !slices.Equal(names, want) {
		t.Errorf("layer holds %q, want %q", names, want)
	}
}

func TestWriteRootfsModes(t *testing.T) {
	dir := t.TempDir()
	if err := writeRootfs(dir, rootfsEntries("amd64", trueELF("amd64"))); err != nil {
		t.Fatal(err)
	}
	for _, e := range rootfsEntries("amd64", nil) {
		st, err := os.Stat(filepath.Join(dir, e.name))
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && st.Mode() != e.mode {
			t.Errorf("%s: mode %v, want %v", e.name, st.Mode(), e.mode)
		}
	}
	if err := writeRootfs(dir, rootfsEntries("amd64", nil)); err == nil {
		t.Error("writing over a rootfs is not refused")
	}
}
