package workloads

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

//go:embed http_apps
var httpApps embed.FS

// httpBody is what every server here answers, the 13 bytes of the usual
// comparisons.
const httpBody = "Hello, World!"

// httpServer is a target of http-serve that is started for it.
type httpServer struct {
	name, summary string
	program              // without names: this program itself
	app           string // file of http_apps that it serves; WORKERS and PORT in it are filled in
	args          func(c httpCommandLine) []string
	copies        bool // several workers are as many processes that share the port
	linux         bool // exists on Linux only
}

// httpCommandLine is what a server's arguments are made from.
type httpCommandLine struct {
	app           string // path of its file
	port, workers int
}

func httpServers() []httpServer {
	app := func(c httpCommandLine) []string { return []string{c.app} }
	own := func(part string) func(httpCommandLine) []string {
		return func(httpCommandLine) []string { return []string{httpCommand, part} }
	}
	return []httpServer{
		{name: "go", summary: "net/http of Go, in a process of this program", args: own("go"), copies: true},
		{name: "epoll", summary: "a loop around epoll on one thread, in a process of this program", args: own("epoll"), copies: true, linux: true},
		{name: "node", summary: "node:http of Node.js; multi: node:cluster", program: nodeProgram, app: "node.js", args: app},
		{name: "bun", summary: "Bun.serve; multi: processes with reusePort", program: bunProgram, app: "bun.js", args: app, copies: true},
		{name: "deno", summary: "deno serve; multi: --parallel", program: denoProgram, app: "deno.js", args: denoArgs},
		{name: "python", summary: "http.server of CPython, a thread per connection", program: pythonProgram, app: "python.py", args: app, copies: true},
		{name: "nginx", summary: "nginx, worker processes", app: "nginx.conf",
			program: program{names: []string{"nginx"}, files: []string{"/usr/sbin/nginx"}, install: "apt-get install nginx-light", version: []string{"-v"}},
			args: func(c httpCommandLine) []string {
				return []string{"-p", filepath.Dir(c.app), "-e", "stderr", "-c", c.app}
			}},
		{name: "elide", summary: "elide, with the program for node", program: elideProgram, app: "node.js",
			args: func(c httpCommandLine) []string { return []string{"run", c.app} }},
	}
}

func denoArgs(c httpCommandLine) []string {
	args := []string{"serve", "--quiet", "--host", "127.0.0.1", "--port", strconv.Itoa(c.port)}
	if c.workers > 1 {
		args = append(args, "--parallel")
	}
	return append(args, c.app)
}

func httpTargets() []Target {
	var all []Target
	for _, s := range httpServers() {
		all = append(all, Target{
			Name: s.name, Summary: s.summary, Find: s.find,
			New: func(p Params) (Instance, error) { return newHTTPInstance(s, p) },
		})
	}
	return append(all, Target{
		Name: "url", Summary: "a server that runs already: -p url=http://127.0.0.1:PORT/PATH", OnlyNamed: true,
		Find: func(context.Context) Found { return Found{OK: true, Where: "-p url=URL"} },
		New:  newHTTPURL,
	})
}

// find looks the server up; no shim or wrapper is resolved, since what it costs
// to start a server is not measured.
func (s httpServer) find(ctx context.Context) Found {
	if s.linux && runtime.GOOS != "linux" {
		return Found{State: OtherSystem, Why: "exists on linux, this is " + runtime.GOOS}
	}
	if !httpGuards {
		return Found{State: OtherSystem, Why: "servers are guarded by process groups, which " + runtime.GOOS + " has not: use --target url"}
	}
	if s.names == nil {
		exe, err := os.Executable()
		if err != nil {
			return Found{State: NotAllowed, Why: err.Error()}
		}
		return Found{OK: true, Where: exe, Version: "part of this program"}
	}
	return s.program.find(ctx)
}

// path is where the server's program is.
func (s httpServer) path() (string, error) {
	if s.names == nil {
		return os.Executable()
	}
	return s.program.path()
}

// commandLine writes the server's file into dir, and gives what to start.
func (s httpServer) commandLine(dir string, port, workers int) ([]string, error) {
	path, err := s.path()
	if err != nil {
		return nil, err
	}
	c := httpCommandLine{port: port, workers: workers}
	if s.app != "" {
		text, err := httpApps.ReadFile("http_apps/" + s.app)
		if err != nil {
			return nil, err
		}
		if filepath.Ext(s.app) == ".conf" {
			text = bytes.ReplaceAll(text, []byte("WORKERS"), []byte(strconv.Itoa(workers)))
			text = bytes.ReplaceAll(text, []byte("PORT"), []byte(strconv.Itoa(port)))
		}
		c.app = filepath.Join(dir, s.app)
		if err := os.WriteFile(c.app, text, 0o644); err != nil {
			return nil, err
		}
	}
	return append([]string{path}, s.args(c)...), nil
}

// httpEnv is what a server is told, on top of the environment.
func httpEnv(dir string, port, workers int) []string {
	return append(os.Environ(),
		fmt.Sprintf("TRACE_HTTP_PORT=%d", port),
		fmt.Sprintf("TRACE_HTTP_WORKERS=%d", workers),
		fmt.Sprintf("DENO_JOBS=%d", workers),
		"DENO_NO_UPDATE_CHECK=1", "DENO_DIR="+filepath.Join(dir, "deno"), "NODE_OPTIONS=")
}
