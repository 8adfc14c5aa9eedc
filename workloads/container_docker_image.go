package workloads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// markRepository holds the tags that say who uses an image of ours, one per
// instance of each run: the tag is runOwner.Key and the instance's name. The
// last user takes the image away.
const markRepository = "stagetrace-run"

// dockerImage is the image of an instance, in its daemon.
type dockerImage struct {
	ref  string
	mark string
	ours bool // not put there by the user
}

// load puts the image into the daemon unless it is there already.
func (m *dockerImage) load(ctx context.Context, c *client.Client, probe probeImage) error {
	tags, err := imageTags(ctx, c, m.ref)
	switch {
	case err == nil:
		m.ours = slices.ContainsFunc(tags, isMark)
	case cerrdefs.IsNotFound(err):
		m.ours = true
		if err := loadImage(ctx, c, probe); err != nil {
			return fmt.Errorf("load image %s: %w", m.ref, err)
		}
	default:
		return fmt.Errorf("image %s: %w", m.ref, err)
	}
	if _, err := c.ImageTag(ctx, client.ImageTagOptions{Source: m.ref, Target: m.mark}); err != nil {
		return fmt.Errorf("tag image %s: %w", m.ref, err)
	}
	return nil
}

// loadImage loads an archive and makes sure that its tag is there: a daemon
// reports errors of the second half of a load in the body of a 200 response.
func loadImage(ctx context.Context, c *client.Client, probe probeImage) error {
	res, err := c.ImageLoad(ctx, bytes.NewReader(probe.Archive), client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(res, 4096))
	if err := errors.Join(err, res.Close()); err != nil {
		return err
	}
	if _, err := imageTags(ctx, c, probe.Tag); err != nil {
		return fmt.Errorf("%w (the daemon said: %s)", err, bytes.TrimSpace(said))
	}
	return nil
}

// unload gives the image up, and removes it if nobody else uses it.
func (m *dockerImage) unload(ctx context.Context, c *client.Client) error {
	if m.ref == "" {
		return nil
	}
	if err := removeTag(ctx, c, m.mark); err != nil {
		return err
	}
	tags, err := imageTags(ctx, c, m.ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("image %s: %w", m.ref, err)
	case !m.ours || slices.ContainsFunc(tags, isMark):
		return nil
	}
	return removeTag(ctx, c, m.ref)
}

// removeImageLeftovers takes away the marks of dead runs, and the images that
// only they used.
func removeImageLeftovers(ctx context.Context, c *client.Client, me runOwner) error {
	list, err := c.ImageList(ctx, client.ImageListOptions{
		Filters: client.Filters{}.Add("reference", markRepository),
	})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	var errs []error
	for _, img := range list.Items {
		// The filter narrows RepoTags down to what matched it, hence the second look.
		tags, err := imageTags(ctx, c, img.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, t := range deadTags(tags, me) {
			errs = append(errs, removeTag(ctx, c, t))
		}
	}
	return errors.Join(errs...)
}

// deadTags are the tags of an image that dead runs left: their marks, and the
// image's own name if there are no other marks.
func deadTags(tags []string, me runOwner) []string {
	var dead, names []string
	alive := false
	for _, t := range tags {
		switch key, mark := strings.CutPrefix(t, markRepository+":"); {
		case mark:
			o, err := parseOwner(key)
			if err == nil && o.DeadTo(me) {
				dead = append(dead, t)
			} else {
				alive = true
			}
		case strings.HasPrefix(t, probeRepository+":"):
			names = append(names, t)
		}
	}
	if len(dead) == 0 || alive {
		return dead
	}
	return append(dead, names...)
}

func isMark(tag string) bool { return strings.HasPrefix(tag, markRepository+":") }

// imageTags are all the tags of the image that ref names, as we gave them.
func imageTags(ctx context.Context, c *client.Client, ref string) ([]string, error) {
	res, err := c.ImageInspect(ctx, ref)
	if err != nil {
		return nil, err
	}
	tags := slices.Clone(res.RepoTags)
	for i, t := range tags {
		tags[i] = localName(t)
	}
	return tags, nil
}

// removeTag takes a tag away, and the image with its last tag.
func removeTag(ctx context.Context, c *client.Client, tag string) error {
	_, err := c.ImageRemove(ctx, tag, client.ImageRemoveOptions{PruneChildren: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("remove image %s: %w", tag, err)
	}
	return nil
}
