package workloads

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel end the child when the thread that started it
// is gone: also after SIGKILL, when nobody is left to clean up.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// procStat is what /proc/PID/stat says that is of use here.
type procStat struct {
	comm  string
	state byte
	pgrp  int
}

// parseProcStat reads a line of /proc/PID/stat. The command's name may hold
// spaces, parentheses and newlines, so the fields count from the last ')'.
func parseProcStat(b []byte) (procStat, bool) {
	open, closing := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || closing < open {
		return procStat{}, false
	}
	f := bytes.Fields(b[closing+1:])
	const state, pgrp = 0, 2 // fields 3 and 5 of proc_pid_stat(5)
	if len(f) <= pgrp || len(f[state]) != 1 {
		return procStat{}, false
	}
	group, err := strconv.Atoi(string(f[pgrp]))
	if err != nil {
		return procStat{}, false
	}
	return procStat{comm: string(b[open+1 : closing]), state: f[state][0], pgrp: group}, true
}

func readProcStat(pid int) (procStat, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, false
	}
	return parseProcStat(b)
}

// groupMembers lists the living processes of a group as "PID COMM". A process
// that has made a session of its own is not among them.
func groupMembers(pgid int) []string {
	if pgid <= 0 || groupEmpty(pgid) {
		return nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var list []string
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		if st, ok := readProcStat(pid); ok && st.pgrp == pgid && st.state != 'Z' && st.state != 'X' {
			list = append(list, fmt.Sprintf("%d %s", pid, st.comm))
		}
	}
	return list
}
