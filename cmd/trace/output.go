package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/term"

	"stagetrace/reports"
)

// terminal is where a command writes: results to out, everything else to err.
type terminal struct {
	out, err io.Writer
}

// columns is the width of w when it is a terminal, else 0.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// plain says that no escape sequence may be written, whatever it goes to.
func plain() bool {
	return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == ""
}

// screen is stdout for a text: as wide as the terminal is, with the colours that
// it can show and that are wanted. A pipe gets every byte as it is, and has no
// width.
func (t *terminal) screen() (w io.Writer, width int) {
	width = columns(t.out)
	if width == 0 {
		return t.out, 0
	}
	environ := os.Environ()
	if plain() {
		environ = []string{"TERM=dumb"}
	}
	return reports.Terminal(t.out, environ), width
}

// ascii says that the locale promises no more than ASCII. Where there is no
// locale at all, POSIX means by that the one called C; other systems write
// Unicode without one.
func ascii() bool {
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(key); v != "" {
			v = strings.ToLower(v)
			return !strings.Contains(v, "utf-8") && !strings.Contains(v, "utf8")
		}
	}
	return runtime.GOOS != "windows"
}

// output is a report that goes to a place of its own: --format NAME[=FILE].
type output struct {
	format reports.Format
	file   string // "": stdout
	w      io.WriteCloser
	temp   string // renamed to file when complete; "" when file is written directly
}

// parseOutputs reads the values of --format.
func parseOutputs(values []string) ([]*output, error) {
	var outs []*output
	for _, v := range values {
		name, file, hasFile := strings.Cut(v, "=")
		if hasFile && file == "" {
			return nil, usagef("--format %s: no file after the =", v)
		}
		f, err := reports.Lookup(name)
		if err != nil {
			return nil, usageError{err}
		}
		outs = append(outs, &output{format: f, file: file})
	}
	return outs, nil
}

// open makes the place ready, so that a mistake shows before anything is
// measured. A regular file is written under a temporary name beside it.
func (o *output) open(term *terminal) error {
	if o.file == "" || o.file == "-" {
		if err := o.refuse(term.out); err != nil {
			return err
		}
		w, _ := term.screen()
		o.file, o.w = "", nopCloser{w}
		return nil
	}
	if info, err := os.Stat(o.file); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", o.file)
	}
	// A link (such as /dev/stdout), a device or a pipe is written through, never
	// replaced.
	if info, err := os.Lstat(o.file); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		o.w = f
		if err := o.refuse(f); err != nil {
			o.discard()
			return err
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(o.file), "."+filepath.Base(o.file)+".*")
	if err != nil {
		return err
	}
	o.w, o.temp = f, f.Name()
	return nil
}

// refuse keeps what is no text from a terminal, whatever that is called
// (/dev/stdout, /dev/tty): the bytes would be taken for commands.
func (o *output) refuse(w io.Writer) error {
	if o.format.Binary && columns(w) > 0 {
		return usagef("format %s is binary: give it a file (%s)", o.format.Name, o.format.File)
	}
	return nil
}

// write makes the report; with an error the place is left as it was.
func (o *output) write(in *reports.Input) error {
	if err := o.add(in); err != nil {
		return err
	}
	return o.commit()
}

// add writes one result; several may follow each other in a text format.
func (o *output) add(in *reports.Input) error {
	if err := o.format.Write(o.w, in); err != nil {
		return fmt.Errorf("format %s: %w", o.format.Name, err)
	}
	return nil
}

// commit completes the file and gives it its name.
func (o *output) commit() error {
	err := o.w.Close()
	o.w = nil
	if err != nil || o.temp == "" {
		return err
	}
	if err := os.Chmod(o.temp, 0o644); err != nil {
		return err
	}
	if err := os.Rename(o.temp, o.file); err != nil {
		return err
	}
	o.temp = ""
	return nil
}

// discard gives up what write has not completed.
func (o *output) discard() {
	if o.w != nil {
		_ = o.w.Close() // nothing of it is kept
	}
	if o.temp != "" {
		_ = os.Remove(o.temp) // a temporary file that stays is no loss
	}
}

// input is what formats get, for the place that this output goes to.
func (o *output) input(base reports.Input, term *terminal) *reports.Input {
	in := base
	in.ASCII = ascii()
	if o.file == "" {
		_, in.Width = term.screen()
	}
	return &in
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// openAll opens every output or none.
func openAll(outs []*output, term *terminal) error {
	for i, o := range outs {
		if err := o.open(term); err != nil {
			for _, done := range outs[:i] {
				done.discard()
			}
			return err
		}
	}
	return nil
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
