//go:build linux

package ebpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"stagetrace/bpf"
	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

// minDetached is how long links stay detached before the next Start: attaching
// right after a detach waits 8 to 16 ms for each link.
const minDetached = 20 * time.Millisecond

// Backend records with BPF programs on tracepoints.
type Backend struct {
	// Stats measures the run time of all BPF programs of the system while a
	// session is open (Meta.RunNs). It makes each run of a program a little
	// slower.
	Stats bool
}

// Name is "ebpf".
func (*Backend) Name() string { return "ebpf" }

// Check says what works here.
func (*Backend) Check(ctx context.Context) []tracer.Feature { return Features(ctx) }

// Open loads the programs that cfg needs.
func (b *Backend) Open(ctx context.Context, cfg tracer.Config) (tracer.Session, error) {
	kernel := symbols.NewKernel()
	loading := make(chan struct{})
	go func() {
		defer close(loading)
		_ = kernel.Load() // without it functions have no names, which Features tells
	}()
	plan := newPlan(cfg)
	l, err := load(plan, kernel, loading)
	if err != nil {
		if missing := Required(Features(ctx)); missing != nil {
			return nil, missing
		}
		return nil, err
	}
	s := &session{backend: b, cfg: cfg, plan: plan, programs: l, kernel: kernel}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

type session struct {
	backend  *Backend
	cfg      tracer.Config
	plan     *plan
	programs *loaded
	kernel   *symbols.Kernel
	ring     *ringbuf.Reader
	maps     *MapReader
	space    *symbols.Mappings
	stats    io.Closer
	cpus     []int

	generation uint32
	links      *links
	reader     *reader
	begin      tracer.Time
	sync       int64 // wall-clock time at begin, ns since 1970
	detached   time.Time
	argvs      map[int32]procArgv
	background sync.WaitGroup
	sleepMin   uint64
	runNs      time.Duration
	notes      []string

	mu    sync.Mutex
	marks []tracer.Mark
}

func (s *session) open() error {
	var err error
	if s.cpus, err = onlineCPUs(); err != nil {
		return err
	}
	if s.ring, err = ringbuf.NewReader(s.programs.coll.Maps["events"]); err != nil {
		return fmt.Errorf("ring buffer: %w", err)
	}
	s.space = symbols.NewMappings()
	if s.cfg.SamplePeriod > 0 {
		if s.maps, err = OpenMapReader(s.cpus); err != nil {
			s.plan.note("%v", err)
			s.maps = nil
		}
	}
	if s.backend.Stats {
		if s.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
			s.plan.note("run time of BPF programs is not measured: %v", err)
		}
	}
	pids := s.cfg.Follow
	if s.cfg.TracerPID > 0 {
		pids = append(pids, s.cfg.TracerPID)
	}
	return s.addFollowed(pids)
}

// onlineCPUs lists the CPUs of /sys/devices/system/cpu/online ("0-3,5").
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("online cpus: %w", err)
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), ",") {
		lo, hi, ok := strings.Cut(part, "-")
		if !ok {
			hi = lo
		}
		from, err1 := strconv.Atoi(lo)
		to, err2 := strconv.Atoi(hi)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("online cpus %q: %w", b, err)
		}
		for c := from; c <= to; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

func (s *session) Now() tracer.Time { return now() }

func (s *session) Mark(m tracer.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, m)
}

// addFollowed puts processes into the map; the task iterator marks their tasks.
func (s *session) addFollowed(pids []int) error {
	m := s.programs.coll.Maps["followed"]
	for _, pid := range pids {
		key, unknown := uint32(pid), uint64(0)
		if err := m.Update(key, unknown, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("follow process %d: %w", pid, err)
		}
	}
	return nil
}

func (s *session) Follow(pids ...int) error {
	if err := s.addFollowed(pids); err != nil {
		return err
	}
	if s.links == nil {
		return nil // Start marks them
	}
	// Twice: a child may have been passed before its parent was marked.
	return errors.Join(s.iterate(iterateFollow), s.iterate(iterateFollow))
}

// What the task iterator is run for (enum iterate).
const (
	iterateSnapshot = iota
	iterateFollow
	iterateCalls
)

func (s *session) iterate(what uint32) error {
	if err := s.set("iterate", what); err != nil {
		return err
	}
	return snapshotTasks(s.programs.coll.Programs["snapshot"])
}

// set changes a setting of the running programs.
func (s *session) set(name string, value any) error {
	if err := s.programs.coll.Variables[name].Set(value); err != nil {
		return fmt.Errorf("BPF setting %s: %w", name, err)
	}
	return nil
}

func (s *session) Start(ctx context.Context) error {
	if s.links != nil {
		return errors.New("already recording")
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.reset(); err != nil {
		return err
	}
	l, err := attach(s.programs)
	if err != nil {
		return err
	}
	s.links = l
	s.reader = startReader(s.ring, s.drainMaps, s.flood)
	if err := s.begun(); err != nil {
		s.abandon()
		return err
	}
	return nil
}

// settle waits until links have been detached long enough.
func (s *session) settle(ctx context.Context) error {
	rest := minDetached - time.Since(s.detached)
	if rest <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(rest):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reset makes the maps those of a new recording.
func (s *session) reset() error {
	s.generation++
	s.runNs = s.runTime()
	s.notes = nil
	s.sleepMin = sleepMin(s.cfg.SleepStack)
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("possible cpus: %w", err)
	}
	zero := uint32(0)
	return errors.Join(
		s.set("generation", s.generation),
		s.set("sleep_min", s.sleepMin),
		s.programs.coll.Maps["counts"].Put(zero, make([]bpf.TraceCpuCount, possible)),
		s.programs.coll.Maps["contexts"].Put(zero, make([]bpf.TraceCpuContext, possible)),
	)
}

// begun is what Start does once programs are attached.
func (s *session) begun() error {
	s.begin = now()
	s.sync = time.Now().UnixNano()
	if s.maps != nil {
		if err := s.maps.Enable(); err != nil {
			return err
		}
	}
	if err := s.links.attachUsers(s.programs, s.plan.users); err != nil {
		return err
	}
	if prog := s.programs.coll.Programs["sample"]; prog != nil {
		if err := s.links.attachSampler(prog, s.cpus, s.cfg.SamplePeriod); err != nil {
			return err
		}
	}
	if err := errors.Join(s.iterate(iterateSnapshot), s.iterate(iterateFollow)); err != nil {
		return err
	}
	s.background.Go(func() {
		s.argvs = readArgvs()
		if s.maps != nil {
			_ = s.space.LoadAll(now()) // else the resolver asks /proc process by process
		}
	})
	return nil
}

// abandon ends a recording that could not begin.
func (s *session) abandon() {
	s.detach()
	if _, err := s.reader.finish(); err == nil {
		s.background.Wait()
	}
	s.reader = nil
}

func sleepMin(d time.Duration) uint64 {
	if d < 0 {
		return math.MaxUint64
	}
	return uint64(d.Nanoseconds())
}

// drainMaps runs in the reader, after each emptying of the ring.
func (s *session) drainMaps() {
	if s.maps != nil {
		s.maps.Drain(func(e MapEvent) { e.Feed(s.space) })
		s.space.KeepPerfMaps(time.Now())
	}
}

// flood makes stacks rarer when the ring buffer fills faster than it is read:
// they are most of its bytes.
func (s *session) flood(full float64) {
	if full < 0.5 || s.sleepMin > uint64(10*time.Millisecond) {
		return
	}
	s.sleepMin = max(s.sleepMin*2, 1000)
	if err := s.set("sleep_min", s.sleepMin); err == nil {
		s.notes = []string{fmt.Sprintf("the event buffer filled up: stacks only of sleeps over %v", time.Duration(s.sleepMin))}
	}
}

func (s *session) detach() {
	if s.links == nil {
		return
	}
	if err := s.links.Close(); err != nil {
		s.notes = append(s.notes, err.Error())
	}
	s.links, s.detached = nil, time.Now()
}

// runTime is what the kernel has counted for our programs since they were
// loaded.
func (s *session) runTime() (sum time.Duration) {
	if s.stats == nil {
		return 0
	}
	for _, p := range s.programs.coll.Programs {
		if st, err := p.Stats(); err == nil {
			sum += st.Runtime
		}
	}
	return sum
}

// Stop detaches first, so that decoding is not recorded, and on a cancelled
// context as well.
func (s *session) Stop(ctx context.Context) (*tracer.Trace, error) {
	if s.links == nil {
		return nil, errors.New("not recording")
	}
	var problems []string
	if s.plan.classes[tracer.ClassSyscall] {
		if err := s.iterate(iterateCalls); err != nil {
			problems = append(problems, err.Error())
		}
	}
	// Read before the end and before the programs are detached: some still run
	// for a moment after that, and what they send when the ring is read no more
	// is not a loss.
	counts, err := s.counts()
	if err != nil {
		problems = append(problems, fmt.Sprintf("loss is not known: %v", err))
	}
	end := now()
	s.detach()
	raw, err := s.reader.finish()
	s.reader = nil
	s.background.Wait()
	if err != nil {
		return nil, fmt.Errorf("read the ring buffer: %w", err)
	}
	if s.maps != nil {
		if err := s.maps.Disable(); err != nil {
			problems = append(problems, err.Error())
		}
		s.maps.Drain(func(e MapEvent) { e.Feed(s.space) })
	}
	t := s.decode(raw, counts, end)
	t.Meta.Notes = append(t.Meta.Notes, problems...)
	s.space.Prune(end)
	return t, ctx.Err()
}

// decode makes the trace.
func (s *session) decode(raw *rawRecords, counts []bpf.TraceCpuCount, end tracer.Time) *tracer.Trace {
	s.mu.Lock()
	marks := s.marks
	s.marks = nil
	s.mu.Unlock()

	b := tracer.NewBuilder()
	d := newDecoder(b, symbols.NewResolver(s.kernel, s.space))
	d.period, d.self, d.argvOf, d.users = s.cfg.SamplePeriod, int32(s.cfg.TracerPID), s.argvs, s.plan.users
	for _, m := range marks {
		d.drivers[int32(m.TID)] = true
	}
	d.end = end
	refs := d.index(raw)
	d.run(raw, refs)
	d.tail(refs, counts, end)
	d.addMarks(marks, end)
	d.oldArgvs()
	d.b.Add(tracer.Event{Time: d.begin, Seq: uint32(len(d.tasks)), Kind: tracer.KindSync, Value: s.sync + int64(d.begin-s.begin)})
	b.Meta = s.meta(d, end)
	return b.Trace()
}

// addMarks adds the begins and ends of operations.
func (d *decoder) addMarks(marks []tracer.Mark, end tracer.Time) {
	for i, m := range marks {
		if m.Time <= d.begin || m.Time > end || m.TID <= 0 {
			continue
		}
		d.b.Add(tracer.Event{Time: m.Time, Seq: 1<<31 + uint32(i), Kind: m.Kind, Task: d.resolve(uint32(m.TID)), Flow: m.Op,
			Name: d.b.String(m.Target), Value: m.Value, Flags: m.Flags})
	}
}

// counts is how many records each CPU has sent or lost so far.
func (s *session) counts() ([]bpf.TraceCpuCount, error) {
	var counts []bpf.TraceCpuCount
	err := s.programs.coll.Maps["counts"].Lookup(uint32(0), &counts)
	return counts, err
}

// tail adds what was lost after the last record of each CPU.
func (d *decoder) tail(refs []ref, counts []bpf.TraceCpuCount, end tracer.Time) {
	next := make([]uint32, len(counts))
	for _, r := range refs {
		if int(r.cpu) < len(next) {
			next[r.cpu] = max(next[r.cpu], r.seq+1)
		}
	}
	for cpu, c := range counts {
		if c.Seq > next[cpu] {
			d.b.Add(tracer.Event{Time: end, CPU: int16(cpu), Seq: seqOf(c.Seq, subLost), Kind: tracer.KindLost, Value: int64(c.Seq - next[cpu])})
		}
	}
}

func (s *session) meta(d *decoder, end tracer.Time) tracer.Meta {
	m := tracer.Meta{Backend: "ebpf", Machine: machine(), CPUs: 1, Begin: d.begin, End: end, SleepStack: tracer.Time(s.cfg.SleepStack),
		SamplePeriod: tracer.Time(s.cfg.SamplePeriod), SelfPID: int32(s.cfg.TracerPID), RunNs: int64(s.runTime() - s.runNs)}
	if s.cfg.SleepStack >= 0 {
		m.SleepStack = tracer.Time(s.sleepMin)
	}
	for _, c := range s.cpus {
		m.CPUs = max(m.CPUs, c+1)
	}
	m.CPUs = max(m.CPUs, len(d.cpus))
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		m.Host, m.Kernel = unix.ByteSliceToString(u.Nodename[:]), unix.ByteSliceToString(u.Release[:])
	}
	for _, p := range s.programs.attached {
		if p.tracepoint != "" {
			m.Probes = append(m.Probes, p.tracepoint)
		} else {
			m.Probes = append(m.Probes, p.name)
		}
	}
	m.Notes = append(append(append(m.Notes, s.plan.notes...), s.notes...), d.notes()...)
	return m
}

// Close detaches and unloads.
func (s *session) Close() error {
	var errs []error
	if s.links != nil {
		s.detach()
		_, err := s.reader.finish()
		errs = append(errs, err)
		s.background.Wait()
	}
	if s.ring != nil {
		errs = append(errs, s.ring.Close())
	}
	if s.space != nil {
		s.space.Close()
	}
	if s.maps != nil {
		errs = append(errs, s.maps.Close())
	}
	if s.stats != nil {
		errs = append(errs, s.stats.Close())
	}
	s.programs.coll.Close()
	runtime.KeepAlive(s)
	return errors.Join(errs...)
}
