package workloads

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// probeProgram is the path of the container's program inside its rootfs. It
// is absolute because an image without a shell has no PATH worth the name.
const probeProgram = "/true"

// pauseProgram is a second one, which sleeps until it is killed.
const pauseProgram = "/pause"

// probeRepository is the repository of every image we make.
const probeRepository = "stagetrace-probe"

// elfArch is what an executable of one architecture needs: everything about a
// static program that does nothing but exit_group(code).
type elfArch struct {
	machine uint16
	align   uint64 // of the load segment: the largest page size the architecture boots with
	code    func(code byte) []byte
	pause   []byte // sleeps for ever
}

// elfArches has one row per architecture, by GOARCH.
func elfArches() map[string]elfArch {
	return map[string]elfArch{
		"amd64": {machine: 62, align: 0x1000, code: func(code byte) []byte {
			return []byte{
				0xbf, code, 0, 0, 0, // mov edi, code
				0xb8, 231, 0, 0, 0, // mov eax, exit_group
				0x0f, 0x05, // syscall
			}
		}, pause: []byte{
			0xb8, 34, 0, 0, 0, // mov eax, pause
			0x0f, 0x05, // syscall
			0xeb, 0xf7, // jmp to the mov: a signal that is handled or stops it has ended the call
		}},
		"arm64": {machine: 183, align: 0x10000, code: func(code byte) []byte {
			var b []byte
			b = binary.LittleEndian.AppendUint32(b, 0xd2800000|uint32(code)<<5) // movz x0, code
			b = binary.LittleEndian.AppendUint32(b, 0xd2800000|94<<5|8)         // movz x8, exit_group
			return binary.LittleEndian.AppendUint32(b, 0xd4000001)              // svc 0
		}, pause: littleEndian(
			0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003, // movz x0..x3, 0: ppoll of nothing, for ever
			0xd2800000|73<<5|8, // movz x8, ppoll
			0xd4000001,         // svc 0
			0x17fffffa,         // b to the first
		)},
	}
}

// trueELF is a static Linux executable for a GOARCH that exits 0: one load
// segment, no interpreter, no libc, a few instructions. nil when the
// architecture is not known.
//
// A container's own process should cost as little as the kernel allows: what
// is left is what starting it costs.
func trueELF(arch string) []byte { return exitELF(arch, 0) }

// exitELF is trueELF with an exit code of one's own.
func exitELF(arch string, code byte) []byte {
	a, ok := elfArches()[arch]
	if !ok {
		return nil
	}
	return a.executable(a.code(code))
}

// pauseELF is an executable that sleeps until it is killed; nil as of exitELF.
func pauseELF(arch string) []byte {
	a, ok := elfArches()[arch]
	if !ok {
		return nil
	}
	return a.executable(a.pause)
}

func littleEndian(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// executable is a static program of one segment around instructions.
func (a elfArch) executable(text []byte) []byte {
	const (
		ehsize, phentsize, phnum = 64, 56, 2
		entry                    = ehsize + phentsize*phnum
		vaddr                    = 0x400000
	)
	size := uint64(entry + len(text))
	b := make([]byte, 0, size)
	b = append(b, 0x7f, 'E', 'L', 'F', 2, 1, 1, 0) // ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE
	b = append(b, make([]byte, 8)...)
	u16 := func(v ...uint16) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
	}
	u32 := func(v ...uint32) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	u64 := func(v ...uint64) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
	}
	u16(2, a.machine) // ET_EXEC
	u32(1)
	u64(vaddr+entry, ehsize, 0) // e_entry, e_phoff, e_shoff
	u32(0)
	u16(ehsize, phentsize, phnum, 0, 0, 0)
	u32(1, 5) // PT_LOAD, R+X
	u64(0, vaddr, vaddr, size, size, a.align)
	u32(0x6474e551, 6) // PT_GNU_STACK, RW: an executable stack is what its absence would mean
	u64(0, 0, 0, 0, 0, 16)
	return append(b, text...)
}

// rootfsEntry is a file or a directory of the probe's root file system.
type rootfsEntry struct {
	name string // relative, without a trailing slash
	mode fs.FileMode
	data []byte // of a file
}

// rootfsEntries is the root file system of the probe container, parents
// first: the program, one that sleeps, and the directories that engines mount
// over.
func rootfsEntries(arch string, program []byte) []rootfsEntry {
	return []rootfsEntry{
		{name: "dev", mode: fs.ModeDir | 0o755},
		{name: "etc", mode: fs.ModeDir | 0o755},
		{name: "proc", mode: fs.ModeDir | 0o555},
		{name: "sys", mode: fs.ModeDir | 0o555},
		{name: pauseProgram[1:], mode: 0o755, data: pauseELF(arch)},
		{name: probeProgram[1:], mode: 0o755, data: program},
	}
}

// writeRootfs writes the entries below an existing directory.
func writeRootfs(dir string, entries []rootfsEntry) error {
	for _, e := range entries {
		at := filepath.Join(dir, e.name)
		var err error
		if e.mode.IsDir() {
			err = os.Mkdir(at, e.mode.Perm())
		} else {
			err = os.WriteFile(at, e.data, e.mode.Perm())
		}
		if err == nil {
			err = os.Chmod(at, e.mode.Perm()) // whatever the umask is
		}
		if err != nil {
			return fmt.Errorf("write rootfs: %w", err)
		}
	}
	return nil
}

// rootfsTar is the entries as an uncompressed tar, the same bytes every time.
func rootfsTar(entries []rootfsEntry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.data)),
			Mode: int64(e.mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if e.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("rootfs tar: %s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("rootfs tar: %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("rootfs tar: %w", err)
	}
	return buf.Bytes(), nil
}

// probeImage is an image made here, so that nothing has to be pulled and every
// engine starts the same bytes.
type probeImage struct {
	Tag     string // stagetrace-probe:<hash of what is in it>
	Archive []byte // docker-archive, what `docker load` reads
}

// newProbeImage makes the image whose program exits with code. The same
// arguments give the same bytes on every machine and with every compressor:
// the layer is left uncompressed, its times are the epoch.
func newProbeImage(arch string, code byte) (probeImage, error) {
	program := exitELF(arch, code)
	if program == nil {
		return probeImage{}, fmt.Errorf("probe image for architecture %q: %w", arch, errors.ErrUnsupported)
	}
	layer, err := rootfsTar(rootfsEntries(arch, program))
	if err != nil {
		return probeImage{}, err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   static.NewLayer(layer, types.DockerUncompressedLayer),
		History: v1.History{CreatedBy: "stagetrace"},
	})
	if err != nil {
		return probeImage{}, fmt.Errorf("probe image: %w", err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return probeImage{}, fmt.Errorf("probe image: %w", err)
	}
	cfg = cfg.DeepCopy()
	// containerd refuses an image whose configuration names no platform.
	cfg.OS, cfg.Architecture = "linux", arch
	cfg.Config = v1.Config{Cmd: []string{probeProgram}, WorkingDir: "/"}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return probeImage{}, fmt.Errorf("probe image: %w", err)
	}
	return archiveImage(img)
}

// archiveImage names an image by its content and writes it down.
func archiveImage(img v1.Image) (probeImage, error) {
	id, err := img.ConfigName() // covers the layers too
	if err != nil {
		return probeImage{}, fmt.Errorf("probe image: %w", err)
	}
	tag, err := name.NewTag(probeRepository + ":" + id.Hex[:12])
	if err != nil {
		return probeImage{}, fmt.Errorf("probe image: %w", err)
	}
	var buf bytes.Buffer
	if err := tarball.Write(tag, img, &buf); err != nil {
		return probeImage{}, fmt.Errorf("probe image: %w", err)
	}
	return probeImage{Tag: probeRepository + ":" + id.Hex[:12], Archive: buf.Bytes()}, nil
}

// writeBundle writes an OCI bundle into dir, which must exist: rootfs and
// config.json.
func writeBundle(dir string, spec *specs.Spec, program []byte) error {
	rootfs := filepath.Join(dir, "rootfs")
	if err := os.Mkdir(rootfs, 0o755); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if err := writeRootfs(rootfs, rootfsEntries(runtime.GOARCH, program)); err != nil {
		return err
	}
	return writeBundleConfig(dir, spec)
}

// writeBundleConfig writes the config.json of a bundle, or replaces it.
func writeBundleConfig(dir string, spec *specs.Spec) error {
	b, err := json.MarshalIndent(spec, "", "\t")
	if err != nil {
		return fmt.Errorf("write bundle: config.json: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// shortHash is 8 hexadecimal digits that stand for s.
func shortHash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:4])
}
