package workloads

import (
	"fmt"
	"os"
)

// engineCommand is the hidden first argument with which this program runs
// itself as a part of the builtin container engine.
const engineCommand = "__engine"

// engineFailed is the exit code of an engine that could not run the container
// at all, as docker and podman have it; other codes are the container's.
const engineFailed = 125

// Main runs this process as a part of the builtin container engine, if args
// (os.Args) say so: handled is false when they do not. A program that offers
// the builtin target calls it first of all, since its start-up is part of what
// is measured.
func Main(args []string) (handled bool, code int) {
	if len(args) < 2 || args[1] != engineCommand {
		return false, 0
	}
	if len(args) != 5 {
		fmt.Fprintf(os.Stderr, "usage: %s %s run STATE-DIR CONTAINER\n", args[0], engineCommand)
		return true, 2
	}
	role, dir, id := args[2], args[3], args[4]
	for _, r := range engineRoles() {
		if r.name == role {
			return true, r.main(dir, id)
		}
	}
	fmt.Fprintf(os.Stderr, "%s: no such part of the engine: %q\n", engineCommand, role)
	return true, 2
}

// engineRole is one process of the engine. main gives the exit code.
type engineRole struct {
	name string
	main func(dir, id string) int
}
