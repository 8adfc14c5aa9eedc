package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/moby/client"
)

func (d *dockerInstance) create(ctx context.Context) error  { return d.tell(ctx, verbCreate) }
func (d *dockerInstance) start(ctx context.Context) error   { return d.tell(ctx, verbStart) }
func (d *dockerInstance) launch(ctx context.Context) error  { return d.tell(ctx, verbLaunch) }
func (d *dockerInstance) pause(ctx context.Context) error   { return d.tell(ctx, verbPause) }
func (d *dockerInstance) unpause(ctx context.Context) error { return d.tell(ctx, verbUnpause) }

func (d *dockerInstance) tell(ctx context.Context, v cliVerb) error {
	err := d.runner.do(ctx, d, v)
	if err != nil {
		d.doubted = true
	}
	return err
}

func (d *dockerInstance) exec(ctx context.Context, program string) (int, error) {
	return d.runner.exec(ctx, d, program)
}

// pauseRest is how long a daemon is left alone between a pause and an unpause.
const pauseRest = 100 * time.Millisecond

// steady waits until the daemon says that the container is in that state, and
// then a little longer: moby 20.10 answers a pause before it has taken in its
// own event of the pause, and refuses an unpause meanwhile ("already paused").
func (d *dockerInstance) steady(ctx context.Context, paused bool) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	for {
		c, err := d.client.ContainerInspect(ctx, d.name, client.ContainerInspectOptions{})
		if err != nil {
			return fmt.Errorf("state of container %s: %w", d.name, err)
		}
		st := c.Container.State
		right := st != nil && st.Running && st.Paused == paused
		if err := rest(ctx, pauseRest); err != nil {
			return fmt.Errorf("state of container %s: %+v: %w", d.name, st, err)
		}
		if right {
			return nil
		}
	}
}

// rest waits, or not so long when ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
