package workloads

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// system is one product that is measured elsewhere and that no workload here
// drives by a target of its own. It keeps a row in the list of targets, so
// that nobody has to wonder whether it was forgotten.
type system struct {
	name, summary string
	programs      []string // on PATH, the first is what it is called
	files         []string // below the home or the current folder, or absolute; patterns
	systems       []string // where it exists, as GOOS; nil: everywhere
	install       string   // the one command that brings it
	run           string   // how it is measured here when it is there
}

// systemsTable has one row per product of the pages that publish such figures.
func systemsTable() []system {
	const command = "trace run -- "
	app := func(name, summary, install string, files ...string) system {
		return system{name: name, summary: summary, programs: []string{name}, files: files, install: install, run: command + name + " APP"}
	}
	runtimes := []system{
		{name: "node", summary: "JavaScript runtime", programs: []string{"node", "nodejs"}, install: "apt-get install nodejs", run: command + "node FILE"},
		{name: "bun", summary: "JavaScript runtime", programs: []string{"bun"}, files: []string{".bun/bin/bun"}, install: "npm install -g bun", run: command + "bun FILE"},
		{name: "deno", summary: "JavaScript runtime", programs: []string{"deno"}, files: []string{".deno/bin/deno"}, install: "npm install -g deno", run: command + "deno run FILE"},
		{name: "elide", summary: "polyglot runtime", programs: []string{"elide"}, files: []string{"elide/elide"}, install: "https://elide.dev", run: command + "elide run FILE"},
		{name: "python", summary: "CPython", programs: []string{"python3", "python"}, install: "apt-get install python3", run: command + "python3 FILE"},
		{name: "pypy", summary: "PyPy", programs: []string{"pypy3", "pypy"}, install: "apt-get install pypy3", run: command + "pypy3 FILE"},
		{name: "ruby", summary: "Ruby", programs: []string{"ruby"}, install: "apt-get install ruby", run: command + "ruby FILE"},
		{name: "java", summary: "Java virtual machine", programs: []string{"java"}, install: "apt-get install default-jre-headless", run: command + "java FILE"},
	}
	desktops := []system{
		app("electron", "desktop shell on Chromium and Node", "npm install -g electron", "node_modules/electron/dist/electron"),
		app("nw", "NW.js, desktop shell on Chromium and Node", "npm install -g nw", "node_modules/nw/nwjs/nw"),
		app("tauri", "desktop shell on the system's web view", "cargo install tauri-cli"),
		app("wails", "desktop shell on the system's web view, in Go", "go install github.com/wailsapp/wails/v2/cmd/wails@latest"),
		app("kurogane", "desktop shell on CEF, in Rust", "cargo install kurogane"),
		app("bunium", "desktop shell on CEF and Bun", "npm install -g bunium", "node_modules/bunium"),
		{name: "chromium", summary: "browser", programs: []string{"chromium", "chromium-browser", "google-chrome", "chrome", "msedge"}, install: "apt-get install chromium", run: command + "chromium --headless --dump-dom about:blank"},
	}
	servers := []system{
		{name: "nginx", summary: "web server", programs: []string{"nginx"}, install: "apt-get install nginx-light", run: "trace attach PID"},
		{name: "wrk", summary: "load generator", programs: []string{"wrk"}, install: "apt-get install wrk", run: command + "wrk URL"},
		{name: "criogen", summary: "agent framework in Rust", programs: []string{"criogen-bench", "criogen"}, install: "see the project's page", run: command + "criogen-bench"},
		{name: "langgraph", summary: "agent framework for Python and JavaScript", programs: []string{"langgraph"}, files: []string{"node_modules/@langchain/langgraph"}, install: "pip install langgraph", run: command + "python3 FILE"},
		{name: "sqlite3", summary: "SQLite's shell", programs: []string{"sqlite3"}, install: "apt-get install sqlite3", run: command + "sqlite3 FILE 'insert ...'"},
	}
	machines := []system{
		{name: "qemu", summary: "virtual machine monitor", programs: []string{"qemu-system-" + qemuArch(), "qemu-kvm"}, install: "apt-get install qemu-system", run: command + "qemu-system-" + qemuArch() + " ..."},
		{name: "firecracker", summary: "virtual machine monitor", programs: []string{"firecracker"}, systems: []string{"linux"}, install: "see the project's releases", run: command + "firecracker --config-file FILE"},
		{name: "cloud-hypervisor", summary: "virtual machine monitor", programs: []string{"cloud-hypervisor"}, systems: []string{"linux"}, install: "see the project's releases", run: command + "cloud-hypervisor ..."},
		{name: "crosvm", summary: "virtual machine monitor", programs: []string{"crosvm"}, systems: []string{"linux"}, install: "cargo install crosvm", run: command + "crosvm run ..."},
		{name: "virtualization-framework", summary: "Apple's virtual machines", programs: []string{"vfkit"}, systems: []string{"darwin"}, install: "brew install vfkit", run: command + "vfkit ..."},
	}
	return slices.Concat(runtimes, desktops, servers, machines)
}

func qemuArch() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

// find looks a system up.
func (s system) find(home string) Found {
	if s.systems != nil && !slices.Contains(s.systems, runtime.GOOS) {
		return Found{State: OtherSystem, Why: fmt.Sprintf("exists on %s, this is %s", strings.Join(s.systems, " and "), runtime.GOOS)}
	}
	for _, p := range s.programs {
		if path, err := exec.LookPath(p); err == nil {
			return Found{State: NotDriven, Where: path, Hint: s.run}
		}
	}
	var looked []string
	for _, f := range s.files {
		if !filepath.IsAbs(f) && strings.HasPrefix(f, ".") {
			f = filepath.Join(home, f)
		}
		if _, err := os.Stat(f); err == nil {
			return Found{State: NotDriven, Where: f, Hint: s.run}
		}
		looked = append(looked, f)
	}
	why := "no " + strings.Join(s.programs, ", ") + " on PATH"
	if len(looked) > 0 {
		why += ", nothing at " + strings.Join(looked, ", ")
	}
	return Found{State: NotInstalled, Why: why, Hint: s.install}
}

// OtherSystems are the products that no workload has a target for, unless it
// has meanwhile: as targets that cannot be chosen.
func OtherSystems() []Target {
	driven := map[string]bool{}
	for _, w := range Table() {
		for _, t := range w.Targets {
			driven[t.Name] = true
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then nothing is found there
	}
	var all []Target
	for _, s := range systemsTable() {
		if !driven[s.name] {
			all = append(all, Target{Name: s.name, Summary: s.summary, Find: func(context.Context) Found { return s.find(home) }})
		}
	}
	return all
}
