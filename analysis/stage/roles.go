package stage

import (
	"slices"
	"strconv"

	"stagetrace/tracer"
)

// actorInfo is what the set can ask about a process: tasks that give the same
// answers are one Actor.
type actorInfo struct {
	role    RoleID
	preds   []uint64 // answer per Set.preds
	windows uint64   // window rules that look at such a process
}

// actorSlot remembers a task's last Actor, with the program it ran.
type actorSlot struct {
	image int32 // index + 2; 0: empty
	id    ActorID
}

// program is one program run of a process: leader and index of its image, -1
// before the first.
type program struct {
	leader tracer.TaskID
	image  int32
}

func (m *Matcher) actor(a ActorID) *actorInfo {
	if int(a) >= len(m.actors) {
		a = 0
	}
	return &m.actors[a]
}

// Role is the role of an actor, or NoRole.
func (m *Matcher) Role(a ActorID) RoleID { return m.actor(a).role }

// Actor is who a task was at a time, as far as the set can tell tasks apart.
func (m *Matcher) Actor(task tracer.TaskID, at tracer.Time) ActorID {
	if task <= 0 || int(task) >= len(m.tr.Tasks) {
		return 0
	}
	image := int32(m.tr.ImageAt(task, at)) + 2
	slot := &m.slots[task]
	if slot.image != image {
		*slot = actorSlot{image, m.newActor(task, program{m.tr.Leader(task), image - 2})}
	}
	return slot.id
}

// newActor answers the set's questions about a task and interns the answers.
func (m *Matcher) newActor(task tracer.TaskID, p program) ActorID {
	t := &m.tr.Tasks[task]
	info := actorInfo{role: m.roleOf(p), preds: make([]uint64, (len(m.set.preds)+63)/64)}
	key := strconv.Itoa(int(info.role))
	for i := range m.set.preds {
		pred := &m.set.preds[i]
		value := t.Comm
		switch pred.field {
		case "exe":
			value = m.imageOf(p).Exe
		case "cgroup":
			value = t.Cgroup
		}
		if matchAny(pred.globs, value) {
			info.preds[i/64] |= 1 << (i % 64)
			key += " " + strconv.Itoa(i)
		}
	}
	if id, ok := m.actorIDs[key]; ok {
		return id
	}
	for bit := range m.set.windows {
		for i := range m.set.windows[bit].users {
			if info.meets(&m.set.windows[bit].users[i]) {
				info.windows |= 1 << bit
			}
		}
	}
	id := ActorID(len(m.actors))
	m.actors = append(m.actors, info)
	m.actorIDs[key] = id
	return id
}

// meets tells whether an actor is one that a rule speaks of.
func (a *actorInfo) meets(c *actorCond) bool {
	if len(c.roles) > 0 && !slices.Contains(c.roles, a.role) || slices.Contains(c.notRoles, a.role) {
		return false
	}
	for _, p := range c.preds {
		if p/64 >= len(a.preds) || a.preds[p/64]&(1<<(p%64)) == 0 {
			return false
		}
	}
	return true
}

// origin is the program that a process ran before p: its previous one, or
// its parent's when it was forked; ok is false when that is not known.
func (m *Matcher) origin(p program) (o program, ok bool) {
	if p.image > 0 {
		return program{p.leader, p.image - 1}, true
	}
	return m.parentOf(p.leader)
}

// parentOf is what the parent of a process ran when it forked it.
func (m *Matcher) parentOf(leader tracer.TaskID) (program, bool) {
	t := &m.tr.Tasks[leader]
	if t.Parent <= 0 || int(t.Parent) >= len(m.tr.Tasks) || m.tr.Leader(t.Parent) == leader {
		return program{}, false
	}
	born := t.Born
	if born == 0 {
		born = t.Start
	}
	return program{m.tr.Leader(t.Parent), int32(m.tr.ImageAt(t.Parent, born))}, true
}

// imageOf is the image of a program run. Before its first exec a process runs
// a copy of its parent's.
func (m *Matcher) imageOf(p program) *tracer.Image {
	for range 64 { // hostile traces may have parents in a circle
		if im := m.tr.Tasks[p.leader].Images; p.image >= 0 && int(p.image) < len(im) {
			return &im[p.image]
		}
		o, ok := m.parentOf(p.leader)
		if !ok {
			break
		}
		p = o
	}
	return &tracer.Image{}
}

// roleOf gives the role of a program run: of the first rule that matches.
// Between fork and exec a process has the role of its parent. A file's rules
// speak of finished facts, so the memo holds; the entry made before the rules
// run ends a circle of parents.
func (m *Matcher) roleOf(p program) RoleID {
	if r, ok := m.roles[p]; ok {
		return r
	}
	m.roles[p] = NoRole
	r := NoRole
	if parent, ok := m.parentOf(p.leader); ok && p.image < 0 {
		r = m.roleOf(parent)
	}
	for i := range m.set.roles {
		if r != NoRole && p.image < 0 && !m.set.roles[i].pid1 {
			continue
		}
		if m.roleHolds(&m.set.roles[i], p) {
			r = m.set.roles[i].role
			break
		}
	}
	m.roles[p] = r
	return r
}

func (m *Matcher) roleHolds(r *roleRule, p program) bool {
	t, im := &m.tr.Tasks[p.leader], m.imageOf(p)
	comm := im.Comm
	if comm == "" {
		comm = t.Comm
	}
	pid := m.tr.Meta.SelfPID
	if r.kernel && !t.Kernel || r.self && (pid == 0 || t.PID != pid) || r.pid1 && (t.NSPID != 1 || t.PID == 1) {
		return false
	}
	for _, q := range []struct {
		globs []glob
		value string
	}{{r.task, comm}, {r.exe, im.Exe}, {r.cgroup, t.Cgroup}, {r.argv0, arg(im, 0)}, {r.argv1, arg(im, 1)}} {
		if len(q.globs) > 0 && !matchAny(q.globs, q.value) {
			return false
		}
	}
	if len(r.arg) > 0 && !slices.ContainsFunc(im.Argv[min(1, len(im.Argv)):], func(s string) bool { return matchAny(r.arg, s) }) {
		return false
	}
	return m.ancestry(r, p)
}

func (m *Matcher) ancestry(r *roleRule, p program) bool {
	if r.hasParent {
		if o, ok := m.parentOf(p.leader); !ok || !slices.Contains(r.parent, m.roleOf(o)) {
			return false
		}
	}
	if r.hasWas {
		if o, ok := m.origin(p); !ok || !slices.Contains(r.was, m.roleOf(o)) {
			return false
		}
	}
	return true
}

func arg(im *tracer.Image, i int) string {
	if i < len(im.Argv) {
		return im.Argv[i]
	}
	return ""
}
