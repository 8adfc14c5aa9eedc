package stage

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stagetrace/tracer"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func TestProbes(t *testing.T) {
	var b strings.Builder
	for _, name := range Builtin() {
		fmt.Fprintf(&b, "%s:\n", name)
		for _, p := range mustLoad(t, name).Probes() {
			fmt.Fprintf(&b, "  %s %q %q\n", p.Class, p.Target, p.Symbol)
		}
	}
	golden(t, "probes.golden", b.String())
}

// The walker of critical paths speaks of these by name.
func TestWaitsOfTheWalker(t *testing.T) {
	names := strings.Fields(`timer device network irq disk stopped traced frozen unknown lost queueing infrastructure child vfork futex
		pipe socket epoll poll work memory rcu.expedited rcu.barrier rcu.normal rcu.srcu lock.mutex lock.rwsem lock.percpu_rwsem stopper
		journal completion signal eventfd iouring runqueue tracer`)
	terminal := strings.Fields("timer disk rcu.expedited rcu.barrier rcu.normal rcu.srcu stopper stopped traced frozen device network irq memory")
	s := mustLoad(t, "linux")
	for _, n := range names {
		id := s.WaitNamed(n)
		if id == NoWait {
			t.Errorf("no wait reason %s", n)
			continue
		}
		if slices.Contains(terminal, n) != s.Waits[id].Terminal && !slices.Contains([]string{"unknown", "lost", "queueing", "infrastructure"}, n) {
			t.Errorf("wait %s: terminal is %v", n, s.Waits[id].Terminal)
		}
	}
	if s.WaitNamed("nothing") != NoWait {
		t.Error("a wait reason that does not exist has an id")
	}
}

// The names that the documentation promises.
func TestCanonicalNames(t *testing.T) {
	want := map[string]string{
		"linux": `ns.net ns.mnt ns.pid ns.ipc ns.uts ns.user ns.cgroup ns.time mount.new mount.umount mount.pivot mount.overlay
			cgroup.create cgroup.attach cgroup.remove cgroup.config net.link.create net.link.move_ns net.link.delete net.link.set net.addr
			net.route net.nft net.iptables net.conntrack security.seccomp security.caps security.lsm security.keyring bpf.load proc.fork
			proc.vfork proc.exec proc.load proc.exit proc.exit.mm proc.exit.ns proc.reap io.fsync io.read io.write io.open io.stat io.unlink
			io.copy io.dir mm.map ipc.pipe ipc.unix ipc.tcp ipc.netlink ipc.futex ipc.eventfd wait.epoll wait.poll wait.sleep wait.signal
			netns.cleanup cgroup.release ipc.cleanup pidns.cleanup net.linkwatch net.dad net.frag block.writeback block.journal rcu.worker
			tracer.overhead`,
		"container": `client.start client.wait client.exit api.request rootfs.prepare rootfs.remove state.persist shim.start runtime.start
			runtime.init runtime.delete hook.network container.run exit.notice daemon.compute netns.cleanup net.link.delete`,
		"http": `client.send client.receive client.work http.queue http.accept http.wait http.poller http.read http.write http.handler`,
	}
	for set, names := range want {
		s := mustLoad(t, set)
		for _, n := range strings.Fields(names) {
			if s.StageNamed(n) == NoStage {
				t.Errorf("%s has no stage %s", set, n)
			}
		}
	}
	s := mustLoad(t, "container")
	for _, n := range strings.Fields("client daemon containerd shim runtime runtime-init hook container engine") {
		if s.RoleNamed(n) == NoRole {
			t.Errorf("container has no role %s", n)
		}
	}
}

func TestLint(t *testing.T) {
	areas := strings.Fields(`api block bpf cgroup client container daemon engine exit fault hook http io ipc irq mm mount net netns ns pidns proc rcu
		rootfs runtime security shim state tracer userns vm wait worker`)
	for _, name := range Builtin() {
		s := mustLoad(t, name)
		seen := map[string]bool{}
		for _, st := range s.Stages {
			area, _, _ := strings.Cut(st.Name, ".")
			switch {
			case seen[st.Name]:
				t.Errorf("%s: stage %s is there twice", name, st.Name)
			case !slices.Contains(areas, area):
				t.Errorf("%s: stage %s opens a new area; if that is meant, add it here", name, st.Name)
			case st.Title == "" || st.Title != strings.TrimSpace(st.Title) || strings.HasSuffix(st.Title, "."):
				t.Errorf("%s: stage %s: bad title %q", name, st.Name, st.Title)
			case st.Line == 0 || st.File == "":
				t.Errorf("%s: stage %s has no place", name, st.Name)
			}
			seen[st.Name] = true
		}
		for _, w := range s.Waits {
			if w.Title == "" {
				t.Errorf("%s: wait %s has no title", name, w.Name)
			}
		}
		for _, r := range s.Roles {
			if r.Title == "" || roleFixtures[r.Name] == nil {
				t.Errorf("%s: role %s has no title or no fixture in the tests", name, r.Name)
			}
		}
	}
}

// instance is a text that a pattern matches.
func instance(g glob) string {
	return strings.NewReplacer("**", "x", "*", "x", "?", "x").Replace(g.text)
}

// example is a situation to try a rule with, and the word of the rule that it
// is made of.
type example struct {
	Situation
	word string
	task tracer.TaskID
}

// examples makes one situation for each frame, span and system call that a
// rule lists.
func (w *world) examples(s *Set, r *rule) []example {
	base := example{Situation: Situation{Wait: NoWait, Phase: PhaseRunning}}
	if r.phases != 0 {
		base.Phase = r.phases & -r.phases
	}
	if r.window >= 0 {
		base.Windows = 1 << r.window
	}
	if len(r.actor.preds) > 0 {
		p := s.preds[r.actor.preds[0]]
		text := instance(p.globs[0])
		if p.field == "exe" {
			base.task = w.process("x", "", text+" x")
		} else {
			base.task = w.process(text, "", "/x x")
		}
	}
	out := []example{base}
	vary := func(n int, make func(e *example, i int)) {
		var next []example
		for _, e := range out {
			for i := range n {
				c := e
				make(&c, i)
				next = append(next, c)
			}
		}
		if n > 0 {
			out = next
		}
	}
	for _, f := range r.frames {
		t := s.frames[f.bit]
		vary(len(t.names), func(e *example, i int) { e.word, e.Stack = t.names[i].text, w.frameExample(t, i) })
	}
	for _, sp := range r.spans {
		vary(len(sp.globs), func(e *example, i int) {
			e.word = sp.globs[i].text
			e.Spans = SpansID(w.String(instance(sp.globs[i])))<<8 | SpansID(sp.class) // bound later
		})
	}
	if !r.noSyscall {
		vary(len(r.syscalls), func(e *example, i int) {
			e.word, e.Syscall = r.syscalls[i].text, w.String(syscallExample(r.syscalls[i]))
		})
	}
	if r.waits != nil {
		out[0].Wait = WaitID(slices.Index(r.waits, true))
	}
	return out
}

func syscallExample(g glob) string {
	for _, n := range strings.Fields(linuxSyscalls) {
		if g.match(n) {
			return n
		}
	}
	return g.text
}

func (w *world) frameExample(t frameTerm, i int) tracer.StackID {
	if t.kind == frameUser {
		f := tracer.Frame{Func: w.String(instance(t.names[i])), Object: w.String("/x")}
		if len(t.objects) > 0 {
			f.Object = w.String(instance(t.objects[0]))
		}
		return w.Stack([]uint32{w.Frame(f)}, false)
	}
	names := []string{instance(t.names[i])}
	if len(t.under) > 0 {
		names = append(names, instance(t.under[0]))
	}
	return w.kernelStack(append(names, "entry_SYSCALL_64_after_hwframe")...)
}

// TestNoDeadRules tries every rule of every set, and every word in it, with a
// situation made of nothing else: each must reach its stage.
func TestNoDeadRules(t *testing.T) {
	for _, name := range Builtin() {
		s := mustLoad(t, name)
		w := newWorld()
		var tries [][]example
		for i := range s.rules {
			r := &s.rules[i]
			if r.instead == nil {
				tries = append(tries, w.examples(s, r))
				continue
			}
			var list []example
			for j := r.after; j < len(s.rules); j++ { // of the sets that come after
				if r.instead[s.rules[j].stage] && s.rules[j].instead == nil && s.rules[j].file != r.file {
					list = append(list, w.examples(s, &s.rules[j])...)
				}
			}
			for k := range list {
				list[k].word = ""
				if r.window >= 0 {
					list[k].Windows = 1 << r.window
				}
			}
			tries = append(tries, list)
		}
		tasks := map[string]tracer.TaskID{}
		for role, make := range roleFixtures {
			tasks[role] = make(w)
		}
		tr := w.Trace()
		m := s.Bind(tr)
		for i := range s.rules {
			checkRule(t, s, m, &s.rules[i], tries[i], tasks)
		}
	}
}

func checkRule(t *testing.T, s *Set, m *Matcher, r *rule, tries []example, tasks map[string]tracer.TaskID) {
	t.Helper()
	reached := map[string]bool{}
	got := map[string]string{}
	for _, e := range tries {
		actors := []ActorID{m.Actor(e.task, 9000)}
		for _, id := range r.actor.roles {
			actors = append(actors, m.Actor(tasks[s.Roles[id].Name], 9000))
		}
		if len(r.actor.roles) > 0 {
			actors = actors[1:]
		}
		if sp := e.Spans; sp != 0 {
			e.Spans = m.Spans(0, tracer.Class(sp&0xff), tracer.StringID(sp>>8), 0)
		}
		for _, actor := range actors {
			for _, state := range []tracer.TaskState{tracer.StateBlocked, tracer.StateRunning, tracer.StateRunnable} {
				e.Actor, e.State = actor, state
				id := m.Stage(&e.Situation)
				if id == r.stage {
					reached[e.word] = true
				}
				got[e.word] = s.text(id)
			}
		}
	}
	if len(tries) == 0 {
		t.Errorf("%s: stage %s: nothing to try a rule with", s.Name, s.text(r.stage))
	}
	for word, stage := range got {
		if !reached[word] {
			t.Errorf("%s: stage %s: a rule or its word %q is dead: what it matches is %s", s.Name, s.text(r.stage), word, stage)
		}
	}
}

// Every wait rule, and every word in it, reaches its reason.
func TestNoDeadWaits(t *testing.T) {
	s := mustLoad(t, "linux")
	w := newWorld()
	type try struct {
		wait WaitID
		word string
		key  waitKey
	}
	var tries []try
	for i := range s.waits {
		r := &s.waits[i]
		add := func(word string, k waitKey) { tries = append(tries, try{r.wait, word, k}) }
		for _, f := range r.frames {
			for j := range s.frames[f.bit].names {
				add(s.frames[f.bit].names[j].text, waitKey{stack: w.frameExample(s.frames[f.bit], j), flags: r.flags})
			}
		}
		for _, g := range r.syscalls {
			add(g.text, waitKey{syscall: w.String(syscallExample(g)), flags: r.flags})
		}
		for _, sp := range r.spans {
			for _, g := range sp.globs {
				add(g.text, waitKey{spans: SpansID(w.String(instance(g)))<<8 | SpansID(sp.class)})
			}
		}
		if r.flags != 0 {
			add(fmt.Sprint(r.flags), waitKey{flags: r.flags})
		}
	}
	m := s.Bind(w.Trace())
	for _, c := range tries {
		if sp := c.key.spans; sp != 0 {
			c.key.spans = m.Spans(0, tracer.Class(sp&0xff), tracer.StringID(sp>>8), 0)
		}
		if got := m.Wait(c.key.stack, c.key.syscall, c.key.spans, c.key.flags); got != c.wait {
			t.Errorf("wait %s: %q is dead: what it matches is %s", s.waitText(c.wait), c.word, s.waitText(got))
		}
	}
}

// The JSON schema, for editors, has the same keys as the parser.
func TestSchema(t *testing.T) {
	data, err := os.ReadFile("stages.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Properties           map[string]any `json:"properties"`
		AdditionalProperties *bool          `json:"additionalProperties"`
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]where{"stageRule": inStage, "roleRule": inRole, "waitRule": inWait, "event": inEvent} {
		d := schema.Defs[name]
		want := termNames(w)
		if w == inEvent {
			want = append(want, "first", "last")
		}
		var got []string
		for k := range d.Properties {
			got = append(got, k)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("schema of %s has %v, the parser %v", name, got, want)
		}
		if d.AdditionalProperties == nil || *d.AdditionalProperties {
			t.Errorf("schema of %s allows unknown keys", name)
		}
	}
}
