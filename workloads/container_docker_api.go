package workloads

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// dockerAPI starts containers by the Engine API: create, wait for the
// removal, start.
//
// Connections are kept alive from one operation to the next. Two are needed,
// since the wait holds one; the second is dialled in the first operation.
// Between operations the client's goroutines sleep in a read.
type dockerAPI struct{}

func (dockerAPI) open(context.Context, *dockerInstance) error { return nil }
func (dockerAPI) prepare() error                              { return nil }
func (dockerAPI) close() error                                { return nil }

// run asks for the wait before the start: a container that lives for a
// millisecond may otherwise be gone before anyone waits for it. ContainerWait
// returns when the response's headers are there, which the daemon sends once
// it is registered as a waiter (moby, api/server/router/container,
// postContainersWait), so nothing can slip through.
func (dockerAPI) run(ctx context.Context, d *dockerInstance) (int, error) {
	ctx, cancel := patient(ctx, cancelGrace)
	defer cancel()
	made, err := d.client.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:       d.name,
		Config:     &container.Config{Image: d.image.ref, Labels: d.labels},
		HostConfig: &container.HostConfig{AutoRemove: true, NetworkMode: container.NetworkMode(d.network)},
	})
	if err != nil {
		return 0, fmt.Errorf("create container: %w", err)
	}
	wait := d.client.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	if _, err := d.client.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		cancel()
		_, _ = awaitContainer(wait) // its goroutine must not stay behind
		return 0, fmt.Errorf("start container: %w", err)
	}
	code, err := awaitContainer(wait)
	if err != nil {
		return code, fmt.Errorf("wait for container: %w", err)
	}
	return code, nil
}

// awaitContainer takes the answer of a wait: the container's exit code. One
// of the channels always delivers, at the latest when the wait's context
// ends, so there is nothing else to select on.
func awaitContainer(w client.ContainerWaitResult) (int, error) {
	select {
	case r := <-w.Result:
		if r.Error != nil {
			return int(r.StatusCode), errors.New(r.Error.Message)
		}
		return int(r.StatusCode), nil
	case err := <-w.Error:
		return 0, err
	}
}
