//go:build amd64 || arm64

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
)

// truthSkip is the exit code of a program that cannot run here.
const truthSkip = 77

// errTruthSkip is a reason why a program cannot run here.
type errTruthSkip struct{ error }

// truthMain runs this process as a truth program, or as the suite, if args
// (os.Args) say so.
func truthMain(args []string) (handled bool, code int) {
	if len(args) < 2 || args[1] != truthCommand {
		return false, 0
	}
	if len(args) == 2 {
		ok, err := truthSuite(context.Background(), os.Stdout)
		if err != nil {
			complain(os.Stderr, err)
		}
		if err != nil || !ok {
			return true, exitFailed
		}
		return true, 0
	}
	debug.SetGCPercent(-1) // a collection would be in the recording
	err := truthRunProgram(args[2], args[3:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[2], err)
		if errors.As(err, &errTruthSkip{}) {
			return true, truthSkip
		}
		return true, exitFailed
	}
	return true, 0
}

// truthRunProgram runs one program and adds what it knows of itself to the file
// that args begin with, as a line of JSON.
func truthRunProgram(name string, args []string) error {
	all := truthPrograms()
	at := slices.IndexFunc(all, func(p truthProgram) bool { return p.name == name })
	if at < 0 || len(args) == 0 {
		return fmt.Errorf("usage: %s NAME FILE; %q is no program of the suite, or there is no FILE", truthCommand, name)
	}
	r, err := newTruthRun(args)
	if err != nil {
		return err
	}
	if err := all[at].run(r); err != nil {
		return err
	}
	line, err := json.Marshal(r.done())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// done is the windows of the steps that were done.
func (r *truthRun) done() []truthWindow {
	windows := slices.Clone(r.windows)
	for i, rec := range r.records {
		if w, ok := rec.window(r.labels[i]); ok {
			windows = append(windows, w)
		}
	}
	return windows
}
