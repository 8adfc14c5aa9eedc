package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files of a result folder that commands look for by name.
const (
	resultFile = "result.json"
	eventsFile = "events.trace.zst"
)

// folder is a result folder in the making. It is filled under a temporary
// name beside its own and renamed when it is complete, so that whoever sees
// the name sees a whole result.
type folder struct {
	path  string
	temp  string
	force bool
}

// defaultFolder is the name of a result folder in the current one.
func defaultFolder(what string, now time.Time) string {
	return fmt.Sprintf("stagetrace-%s-%s", safeName(what), now.UTC().Format("20060102T150405Z"))
}

// safeName keeps what is fit for a file name everywhere.
func safeName(s string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, s)
	name = strings.Trim(name, "-")
	const longest = 40
	if len(name) > longest {
		name = name[:longest]
	}
	if name == "" {
		return "run"
	}
	return name
}

// createFolder makes the temporary folder. A path that exists is refused,
// unless it is an empty folder, or force is set and it is a result folder.
func createFolder(path string, force bool) (*folder, error) {
	if path == "" {
		return nil, usagef("--out: empty path")
	}
	path = filepath.Clean(path)
	if err := mayReplace(path, force); err != nil {
		return nil, err
	}
	parent := filepath.Dir(path)
	temp, err := os.MkdirTemp(parent, filepath.Base(path)+".partial-*")
	if err != nil {
		return nil, fmt.Errorf("result folder: %w", err)
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return nil, errors.Join(err, os.Remove(temp))
	}
	return &folder{path: path, temp: temp, force: force}, nil
}

func mayReplace(path string, force bool) error {
	info, err := os.Lstat(path)
	if notExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s exists and is not a folder", path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	if !force {
		return fmt.Errorf("%s exists; --force replaces a result", path)
	}
	if _, err := os.Stat(filepath.Join(path, resultFile)); err != nil {
		return fmt.Errorf("%s is not a result folder: --force does not replace it", path)
	}
	return nil
}

// file is the path of a file while the folder is being filled.
func (f *folder) file(name string) string { return filepath.Join(f.temp, name) }

// commit gives the folder its name. What was there is removed only after it
// has made way.
func (f *folder) commit() error {
	old := ""
	if err := mayReplace(f.path, f.force); err != nil {
		return err
	}
	if _, err := os.Lstat(f.path); err == nil {
		// An empty place is made by MkdirTemp and then taken by the rename.
		place, err := os.MkdirTemp(filepath.Dir(f.path), filepath.Base(f.path)+".old-*")
		if err != nil {
			return err
		}
		if err := os.Remove(place); err != nil {
			return err
		}
		if err := os.Rename(f.path, place); err != nil {
			return err
		}
		old = place
	}
	if err := os.Rename(f.temp, f.path); err != nil {
		return err
	}
	f.temp = ""
	if old != "" {
		return os.RemoveAll(old)
	}
	return nil
}

// keep leaves what was measured under its temporary name, and says where.
func (f *folder) keep(err error) error {
	if f.temp == "" {
		return err
	}
	err = fmt.Errorf("%w; what was recorded is in %s", err, f.temp)
	f.temp = ""
	return err
}

// discard removes what commit has not named.
func (f *folder) discard() error {
	if f.temp == "" {
		return nil
	}
	return os.RemoveAll(f.temp)
}
