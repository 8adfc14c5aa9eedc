//go:build amd64 || arm64

package main

import "stagetrace/tracer"

// truthExactIO has the calls of the disk programs recorded with their times: most
// of their time on a CPU is too short for samples.
const truthExactIO = `
set: truth
use: [linux]
stages:
  - stage: io.fsync
    title: Make files durable (fsync)
    when:
      - {syscall: fsync, exact: true}
  - stage: io.write
    title: Write files
    when:
      - {syscall: pwrite64, exact: true}
`

// truthPrograms is the suite.
func truthPrograms() []truthProgram {
	const blocked, running = tracer.StateBlocked, tracer.StateRunning
	slept := func(label string) truthExpectation {
		return truthExpectation{what: label, label: label, measure: truthBlocked, state: blocked, stage: "wait.sleep", wait: "timer"}
	}
	sleptFor := func(label, waiter string) truthExpectation {
		e := slept(label)
		e.waiter = waiter
		return e
	}
	computed := func(label string) truthExpectation {
		return truthExpectation{what: label, label: label, measure: truthRan, state: running, stage: "proc.user"}
	}
	// Of what is shorter than the time between two samples it is known who was
	// on a CPU, but not with which of its doings.
	ran := func(label string) truthExpectation {
		return truthExpectation{what: label, label: label, measure: truthRan, state: running}
	}
	never := func(label string) truthExpectation {
		return truthExpectation{what: label + " (never)", label: label, never: true}
	}
	convoy := func(label string) truthExpectation {
		e := sleptFor(label, "")
		e.within = "wait"
		return e
	}
	return []truthProgram{
		{name: "sleep", what: "nanosleep", run: truthSleep, expect: []truthExpectation{slept("nap")}},
		{name: "burn", what: "computing", run: truthBurnAlone, expect: []truthExpectation{computed("burn")}},
		{name: "timer", what: "a read of a timerfd", run: truthTimer, expect: []truthExpectation{
			{what: "expiry", label: "expiry", measure: truthBlocked, state: blocked, wait: "timer"}}},
		{name: "pipe", what: "a read that a child's sleep delays", run: truthPipe, expect: []truthExpectation{sleptFor("nap", "read")}},
		{name: "pingpong", what: "bytes there and back, each side computing", run: truthPingPong, expect: []truthExpectation{ran("serve"), ran("return")}},
		{name: "convoy", what: "a futex mutex that three hold in turn", run: truthConvoy, expect: []truthExpectation{convoy("hold 1"), convoy("hold 2"), convoy("hold 3")}},
		{name: "broadcast", what: "a condition that wakes three; the slowest is waited for", run: truthBroadcast, expect: []truthExpectation{
			slept("signal"), sleptFor("slow", "wait"), never("fast")}},
		{name: "fanout", what: "three children at once, one slow", run: truthFanout, expect: []truthExpectation{sleptFor("slow", "wait"), never("fast")}},
		{name: "vfork", what: "vfork, and an execve of 1 MB of arguments", run: truthVfork, expect: []truthExpectation{
			{what: "execve", label: "spawn", measure: truthBlocked, who: truthOthers, waiter: "spawn"}, slept("nap")}},
		{name: "threadexec", what: "execve by a thread that is not the first", run: truthThreadExec, expect: []truthExpectation{slept("before"), slept("after")}},
		{name: "tcp", what: "a request over TCP, on the loopback", run: truthTCP, expect: []truthExpectation{sleptFor("serve", "reply")}},
		{name: "veth", what: "a request over TCP, between network namespaces", run: truthVeth, expect: []truthExpectation{sleptFor("serve", "reply")}},
		{name: "direct", what: "direct writes", stages: truthExactIO, run: truthDirect, expect: []truthExpectation{
			{what: "write", label: "write", who: truthAnyone, stage: "io.write"},
			{what: "disk", label: "write", measure: truthBlocked, who: truthAnyone, state: blocked, stage: "io.write", wait: "disk"}}},
		{name: "fsync", what: "buffered writes and fsync", stages: truthExactIO, run: truthFsync, expect: []truthExpectation{
			{what: "write", label: "write", stage: "io.write"},
			{what: "fsync", label: "fsync", who: truthAnyone, stage: "io.fsync"}}},
		{name: "rcu", what: "a grace period (membarrier)", run: truthRCU, expect: []truthExpectation{
			{what: "grace period", label: "barrier", measure: truthBlocked, state: blocked, wait: "rcu.*"}}},
		{name: "netns", what: "a network namespace going away", run: truthNetns, expect: []truthExpectation{
			{what: "clean-up", label: "gone", measure: truthBlocked, who: truthAnyone, stage: "netns.cleanup"}}},
		{name: "queueing", what: "a daemon of one thread, busy with a stranger", server: "daemon", stranger: "stranger", run: truthClient, expect: []truthExpectation{
			{what: "queueing", label: "queued", who: truthAnyone, wait: "queueing"}, sleptFor("serve", "reply")}},
		{name: "bystander", what: "pipe, beside a busy loop on every CPU", burners: true, run: truthPipe, expect: []truthExpectation{sleptFor("nap", "read")}},
		{name: "daemon", run: truthDaemon},
		{name: "stranger", run: truthStranger},
		{name: "burner", run: truthBurner},
		{name: "napper", run: truthNapper},
	}
}
