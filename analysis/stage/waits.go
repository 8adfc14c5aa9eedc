package stage

import "stagetrace/tracer"

// waitFlags are the flags that wait rules can ask about.
const waitFlags = tracer.FlagStopped | tracer.FlagTraced | tracer.FlagFrozen | tracer.FlagIOWait | tracer.FlagIdle

type waitKey struct {
	stack   tracer.StackID
	syscall tracer.StringID
	spans   SpansID
	flags   tracer.Flags
}

// Wait is what a sleeping task waits for: by what its state says of being
// held, else by its frames and the locks it contends for, else by its saying
// that it waits for I/O, else by its system call; within each of these in the
// order of the set. NoWait when no rule knows.
func (m *Matcher) Wait(stack tracer.StackID, syscall tracer.StringID, spans SpansID, fl tracer.Flags) WaitID {
	k := waitKey{stack, syscall, spans, fl & waitFlags}
	id, ok := m.waits[k]
	if !ok {
		id = m.evalWait(k)
		m.waits[k] = id
	}
	return id
}

func (m *Matcher) evalWait(k waitKey) WaitID {
	bits := m.frames.bits(k.stack)
	for i := range m.set.waits {
		w := &m.set.waits[i]
		if k.flags&w.flags == w.flags && m.framesHold(w.frames, bits, k.spans) && m.spansHold(w.spans, k.spans) && m.waitSyscall(w, k) {
			return w.wait
		}
	}
	return NoWait
}

func (m *Matcher) waitSyscall(w *waitRule, k waitKey) bool {
	return len(w.syscalls) == 0 || k.syscall != 0 && matchAny(w.syscalls, m.tr.String(k.syscall)) ||
		m.inside(&spanTerm{tracer.ClassSyscall, w.syscalls}, k.spans, nil)
}
