package tracetest

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// progLoad is the part of union bpf_attr (include/uapi/linux/bpf.h) that
// BPF_PROG_LOAD needs.
type progLoad struct {
	progType, insnCount uint32
	insns, license      uint64
	logLevel, logSize   uint32
	logBuf              uint64
	kernVersion, flags  uint32
}

// bpfSyscall is the number of bpf(2), which package syscall does not have
// everywhere.
var bpfSyscall = map[string]uintptr{"amd64": 321, "arm64": 280, "riscv64": 280, "loong64": 280, "ppc64le": 361, "s390x": 351}

// checkBPF loads "r0 = 0; exit" as a tracepoint program.
func checkBPF() error {
	nr, ok := bpfSyscall[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("not tried on %s", runtime.GOARCH)
	}
	const cmdProgLoad, typeTracepoint = 5, 5
	program := [2]uint64{0xb7, 0x95}
	license := [4]byte{'G', 'P', 'L'}
	attr := progLoad{progType: typeTracepoint, insnCount: 2,
		insns:   uint64(uintptr(unsafe.Pointer(&program))),
		license: uint64(uintptr(unsafe.Pointer(&license)))}
	fd, _, errno := syscall.Syscall(nr, cmdProgLoad, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(&program)
	runtime.KeepAlive(&license)
	if errno != 0 {
		return fmt.Errorf("load a BPF program: %w", errno)
	}
	return syscall.Close(int(fd))
}
