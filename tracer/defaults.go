package tracer

// taskFields are fields of a Task that were given and are not derived.
type taskFields uint8

const (
	taskLeader taskFields = 1 << iota
	taskParent
	taskBorn
)

// taskDefault is what the rest of a trace says about a task.
type taskDefault struct {
	leader, parent TaskID
	born           Time
}

// taskDefaults derives, for every task, its leader from the ids and its
// parent and birth from the Fork events. Builder fills them in where nothing
// better is known; the text form leaves out what equals them.
func taskDefaults(t *Trace) []taskDefault {
	defaults := make([]taskDefault, len(t.Tasks))
	leaders := map[int32][]TaskID{}
	for i := range t.Tasks {
		if t.Tasks[i].TID == t.Tasks[i].PID {
			leaders[t.Tasks[i].PID] = append(leaders[t.Tasks[i].PID], TaskID(i))
		}
	}
	for i := range t.Tasks {
		defaults[i] = taskDefault{leader: leaderAmong(t, leaders, TaskID(i)), parent: NoTask}
	}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != KindFork || e.Peer <= Idle || int(e.Peer) >= len(defaults) {
			continue
		}
		if d := &defaults[e.Peer]; d.parent == NoTask {
			d.parent, d.born = e.Task, e.Time
		}
	}
	return defaults
}

// leaderAmong picks, of the tasks whose TID is the task's PID, the youngest
// that is not younger than the task: a PID may be reused within a trace. A
// task whose leader was never seen leads itself.
func leaderAmong(t *Trace, leaders map[int32][]TaskID, id TaskID) TaskID {
	task := &t.Tasks[id]
	if id == Idle || task.TID == task.PID {
		return id
	}
	best := NoTask
	for _, l := range leaders[task.PID] {
		if l == Idle || t.Tasks[l].Start > task.Start {
			continue
		}
		if best == NoTask || t.Tasks[l].Start > t.Tasks[best].Start {
			best = l
		}
	}
	if best == NoTask {
		return id
	}
	return best
}

// apply fills in the fields of a task that are unset and not given.
func (d taskDefault) apply(task *Task, given taskFields) {
	if given&taskLeader == 0 && task.Leader == NoTask {
		task.Leader = d.leader
	}
	if given&taskParent == 0 && task.Parent == NoTask {
		task.Parent = d.parent
	}
	if given&taskBorn == 0 && task.Born == 0 {
		task.Born = d.born
	}
}
