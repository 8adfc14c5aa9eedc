//go:build linux

package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"

	"stagetrace/bpf"
	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

// maxUserFunctions bounds how many user functions are recorded: a wildcard may
// match all of a program.
const maxUserFunctions = 500

// userFunction is a function of which every call is recorded.
type userFunction struct {
	object, name string
	offset       uint64 // in the file
}

// addUser finds the functions that a probe is about. Whatever cannot be had is
// a note: stacks still tell of it.
func (p *plan) addUser(probe tracer.Probe) {
	found, err := findUser(probe.Target, probe.Symbol)
	if err != nil {
		p.note("user %s: %v; matched by stacks", probe.Symbol, err)
		return
	}
	if room := maxUserFunctions - len(p.users); len(found) > room {
		p.note("user %s: %d functions of %s match, %d are recorded", probe.Symbol, len(found), probe.Target, room)
		found = found[:room]
	}
	for _, f := range found {
		if !slices.Contains(p.users, f) {
			p.users = append(p.users, f)
		}
	}
}

func findUser(object, pattern string) ([]userFunction, error) {
	if object == "" || strings.ContainsAny(object, "*?") {
		return nil, errors.New("which file it is in must be said in full")
	}
	functions, err := symbols.FindFunctions(object, pattern)
	if err != nil {
		return nil, err
	}
	found := make([]userFunction, len(functions))
	for i, f := range functions {
		found[i] = userFunction{object: object, name: f.Name, offset: f.Offset}
	}
	return found, nil
}

func wantUsers(p *plan) bool { return len(p.users) > 0 }

// userPrograms are the programs at the begin and at the return of a function.
var userPrograms = [...]string{"user_begin", "user_end"}

// prepareUsers chooses how the programs are to be attached: all functions of a
// file at once (Linux 6.6), or one by one. Tried, not asked by version.
func prepareUsers(spec *ebpf.CollectionSpec) (multi bool) {
	if features.HaveBPFLinkUprobeMulti() != nil {
		return false
	}
	for _, name := range userPrograms {
		if p := spec.Programs[name]; p != nil {
			p.AttachType = ebpf.AttachTraceUprobeMulti
		}
	}
	return true
}

// attachUsers attaches the programs to all functions. The return first, so that
// no function is entered whose return is not seen.
func (k *links) attachUsers(l *loaded, users []userFunction) error {
	begin, end := l.coll.Programs[userPrograms[0]], l.coll.Programs[userPrograms[1]]
	for first := 0; first < len(users); {
		object, next := users[first].object, first
		var at, cookies []uint64
		for ; next < len(users) && users[next].object == object; next++ {
			at, cookies = append(at, users[next].offset), append(cookies, uint64(next))
		}
		exe, err := link.OpenExecutable(object)
		if err != nil {
			return fmt.Errorf("probe %s: %w", object, err)
		}
		if l.multi {
			err = k.attachTogether(exe, end, begin, &link.UprobeMultiOptions{Addresses: at, Cookies: cookies})
		} else {
			err = k.attachEach(exe, end, begin, at, cookies)
		}
		if err != nil {
			return fmt.Errorf("probe functions of %s: %w", object, err)
		}
		first = next
	}
	return nil
}

func (k *links) attachTogether(exe *link.Executable, end, begin *ebpf.Program, opts *link.UprobeMultiOptions) error {
	ret, err := exe.UretprobeMulti(nil, end, opts)
	if err != nil {
		return err
	}
	k.all = append(k.all, ret)
	entry, err := exe.UprobeMulti(nil, begin, opts)
	if err != nil {
		return err
	}
	k.all = append(k.all, entry)
	return nil
}

func (k *links) attachEach(exe *link.Executable, end, begin *ebpf.Program, at, cookies []uint64) error {
	for i := range at {
		opts := &link.UprobeOptions{Address: at[i], Cookie: cookies[i]}
		ret, err := exe.Uretprobe("", end, opts)
		if err != nil {
			return err
		}
		k.all = append(k.all, ret)
		entry, err := exe.Uprobe("", begin, opts)
		if err != nil {
			return err
		}
		k.all = append(k.all, entry)
	}
	return nil
}

const userEnd = 1 // US_END

// inUser is a user function that a task is in.
type inUser struct {
	function uint32
	sp       uint64 // stack pointer when it was entered
}

// oneStack is how far apart two addresses of one stack may be: 8 MiB is what a
// thread gets. What is further away is the stack of a coroutine or a signal.
const oneStack = 8 << 20

// user adds the begin or the end of a function. A longjmp or an exception leaves
// functions without their return: when the stack is no deeper than it was when
// one was entered, that one has ended.
func (d *decoder) user(r *bpf.TraceRecUser, _ []byte) {
	id := d.resolve(r.Tid)
	if id <= tracer.Idle || int(r.Function) >= len(d.users) || tracer.Time(r.H.Ts) <= d.begin {
		return
	}
	in := d.info(id)
	gone := func(f inUser) bool { return f.sp <= r.Sp && r.Sp-f.sp < oneStack }
	ends := r.H.Flags&userEnd != 0
	returned := false
	for n := len(in.inUser); n > 0 && !returned && gone(in.inUser[n-1]); n-- {
		f := in.inUser[n-1]
		returned = ends && f.function == r.Function && r.Sp-f.sp <= 16 // its return address was taken off
		in.inUser = in.inUser[:n-1]
		d.addUserEvent(r, id, tracer.KindEnd, f.function)
	}
	if !ends {
		in.inUser = append(in.inUser, inUser{r.Function, r.Sp})
		d.addUserEvent(r, id, tracer.KindBegin, r.Function)
	}
}

func (d *decoder) addUserEvent(r *bpf.TraceRecUser, id tracer.TaskID, kind tracer.Kind, function uint32) {
	d.add(&r.H, tracer.Event{Kind: kind, Class: tracer.ClassUser, Task: id, Name: d.b.String(d.users[function].name)}, subEvent)
}
