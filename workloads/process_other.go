//go:build !linux

package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// groupMembers lists what is left of a group as "PID COMM". Where only the
// group as such can be asked for, it names the group.
func groupMembers(pgid int) []string {
	if pgid <= 0 || groupEmpty(pgid) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	name := "process group"
	if p, err := process.NewProcessWithContext(ctx, int32(pgid)); err == nil {
		if n, err := p.NameWithContext(ctx); err == nil {
			name = n
		}
	}
	return []string{fmt.Sprintf("%d %s", pgid, name)}
}
