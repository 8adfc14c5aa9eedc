package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// runtimeStart is the row runtime-start: a program of one line, from the fork to
// the reaped process.
func runtimeStart() Workload {
	w := Workload{
		Name:    "runtime-start",
		Summary: "Start a language runtime, run a program of one line, and end",
		Stages:  []string{"runtime", "linux"},
		Unit:    "starts",
		Params: []Param{
			{Name: "script", Default: "hello", Values: []string{"hello", "exit0"}, Help: "the program prints a line, or only ends"},
			{Name: "via", Default: "direct", Values: []string{"direct", "path"},
				Help: "direct: the runtime's own file; path: what PATH has, which may be the shim of a version manager"},
		},
	}
	for _, l := range languages() {
		w.Targets = append(w.Targets, Target{
			Name: l.name, Summary: l.summary, Find: l.find,
			New: func(p Params) (Instance, error) {
				return &runtimeInstance{language: l, script: p["script"], via: p["via"]}, nil
			},
		})
	}
	return w
}

// language is a target of runtime-start.
type language struct {
	name, summary string
	program
	real         []string // arguments that make it print the path of its own file; nil: what PATH has is it
	file         string   // name of the program's file
	hello, exit0 string   // the program
	run          []string // arguments before the file; after build: none
	build        []string // of a compiler: arguments that make FILE into OUT
}

func languages() []language {
	return []language{
		{name: "node", summary: "Node.js", program: nodeProgram,
			real: []string{"-p", "process.execPath"}, file: "main.js", hello: "console.log('hello')\n", exit0: "process.exit(0)\n"},
		{name: "bun", summary: "Bun", program: bunProgram,
			real: []string{"-p", "process.execPath"}, file: "main.js", hello: "console.log('hello')\n", exit0: "process.exit(0)\n"},
		{name: "deno", summary: "Deno", program: denoProgram,
			real: []string{"eval", "console.log(Deno.execPath())"}, file: "main.js", hello: "console.log('hello')\n", exit0: "Deno.exit(0)\n", run: []string{"run", "--quiet"}},
		{name: "python", summary: "CPython", program: pythonProgram,
			real: []string{"-c", "import sys; print(sys.executable)"}, file: "main.py", hello: "print('hello')\n", exit0: "raise SystemExit\n"},
		{name: "pypy", summary: "PyPy", program: program{names: []string{"pypy3", "pypy"}, install: "apt-get install pypy3", version: []string{"--version"}},
			real: []string{"-c", "import sys; print(sys.executable)"}, file: "main.py", hello: "print('hello')\n", exit0: "raise SystemExit\n"},
		{name: "ruby", summary: "Ruby", program: program{names: []string{"ruby"}, install: "apt-get install ruby", version: []string{"--version"}},
			real: []string{"-e", "puts RbConfig.ruby"}, file: "main.rb", hello: "puts 'hello'\n", exit0: "exit 0\n"},
		{name: "java", summary: "Java, a source file", program: program{names: []string{"java"}, install: "apt-get install default-jdk-headless", version: []string{"-version"}},
			file: "Main.java", hello: "class Main { public static void main(String[] a) { System.out.println(\"hello\"); } }\n", exit0: "class Main { public static void main(String[] a) {} }\n"},
		{name: "elide", summary: "elide, JavaScript", program: elideProgram,
			file: "main.js", hello: "console.log('hello')\n", exit0: "\n", run: []string{"run"}},
		{name: "go", summary: "a static Go program", program: program{names: []string{"go"}, install: "see https://go.dev/dl", version: []string{"version"}},
			file: "main.go", hello: "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"hello\\n\") }\n", exit0: "package main\n\nfunc main() {}\n", build: []string{"build", "-o", "OUT", "FILE"}},
		{name: "c", summary: "a static C program", program: program{names: []string{"cc", "gcc", "clang"}, install: "apt-get install gcc libc6-dev", version: []string{"--version"}},
			file: "main.c", hello: "#include <stdio.h>\n\nint main(void) { puts(\"hello\"); return 0; }\n", exit0: "int main(void) { return 0; }\n", build: []string{"-O1", "-static", "-o", "OUT", "FILE"}},
	}
}

const compilePatience = time.Minute

// find looks a runtime up, and whether what PATH has is a shim.
func (l language) find(ctx context.Context) Found {
	f := l.program.find(ctx)
	if !f.OK {
		return f
	}
	if own, err := l.own(ctx, f.Where); err == nil && own != f.Where {
		f.Note = own + " is the program itself, which -p via=direct starts; -p via=path,direct shows what the way there costs"
	}
	return f
}

// own is the runtime's own file, as it says itself: what PATH has may be the shim
// of a version manager, or a link.
func (l language) own(ctx context.Context, path string) (string, error) {
	if l.real == nil {
		return path, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, l.real...).Output()
	own := strings.TrimSpace(string(out))
	if err == nil && !filepath.IsAbs(own) {
		err = fmt.Errorf("it says %q", own)
	}
	if err != nil {
		return "", fmt.Errorf("%s does not say where its own file is: %w", path, err)
	}
	return own, nil
}

// runtimeInstance is a command whose program and arguments are known once its
// folder is there.
type runtimeInstance struct {
	command
	language    language
	script, via string
	folder      string
	output      *os.File // what the program prints; a file, so that its writes are known by their path
}

func (r *runtimeInstance) Setup(ctx context.Context) error {
	path, err := r.language.path()
	if err == nil && r.via == "direct" && r.language.build == nil {
		path, err = r.language.own(ctx, path)
	}
	if err != nil {
		return err
	}
	if r.folder, err = os.MkdirTemp("", "stagetrace-runtime-"); err != nil {
		return err
	}
	text := r.language.hello
	if r.script == "exit0" {
		text = r.language.exit0
	}
	file := filepath.Join(r.folder, r.language.file)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	r.argv = append(append([]string{path}, r.language.run...), file)
	if r.language.build != nil {
		if err := r.compile(ctx, path, file); err != nil {
			return err
		}
	}
	if r.output, err = os.OpenFile(filepath.Join(r.folder, "output"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	r.opts.Stdout = r.output
	r.opts.Env = append(os.Environ(), "DENO_NO_UPDATE_CHECK=1", "DENO_DIR="+filepath.Join(r.folder, "deno"), "NODE_OPTIONS=")
	return r.command.Setup(ctx)
}

func (r *runtimeInstance) compile(ctx context.Context, compiler, file string) error {
	out := filepath.Join(r.folder, "program")
	args := make([]string, len(r.language.build))
	for i, a := range r.language.build {
		args[i] = strings.NewReplacer("OUT", out, "FILE", file).Replace(a)
	}
	ctx, cancel := context.WithTimeout(ctx, compilePatience)
	defer cancel()
	c := exec.CommandContext(ctx, compiler, args...)
	c.Dir = r.folder
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", compiler, strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	r.argv = []string{out}
	return nil
}

// Conclude wants of a program that it said what it should.
func (r *runtimeInstance) Conclude(ctx context.Context, op int, out Outcome) error {
	err := r.command.Conclude(ctx, op, out)
	if r.output == nil || out.ExitCode != 0 || out.Units == 0 {
		return err
	}
	said, readErr := os.ReadFile(r.output.Name())
	if want := map[string]string{"hello": "hello\n"}[r.script]; readErr == nil && string(said) != want {
		readErr = fmt.Errorf("%s printed %.80q, not %q", r.argv[0], said, want)
	}
	return errors.Join(err, readErr, r.output.Truncate(0))
}

func (r *runtimeInstance) Cleanup(ctx context.Context) error {
	err := r.command.Cleanup(ctx)
	if r.output != nil {
		err = errors.Join(err, r.output.Close())
		r.output = nil
	}
	if r.folder != "" {
		err = errors.Join(err, os.RemoveAll(r.folder))
		r.folder = ""
	}
	return err
}
