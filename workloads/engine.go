package workloads

import (
	"fmt"
	"os"
	"slices"
)

// engineCommand is the hidden first argument with which this program runs
// itself as a part of a container engine: of the builtin one, or as the hook
// that runc has its networks made by.
const engineCommand = "__engine"

// engineFailed is the exit code of an engine that could not run the container
// at all, as docker and podman have it; other codes are the container's.
const engineFailed = 125

// Main runs this process as a part of a container engine or of http-serve, if
// args (os.Args) say so: handled is false when they do not. A program that
// offers the workloads calls it first of all, since its start-up is part of what
// is measured.
func Main(args []string) (handled bool, code int) {
	if len(args) >= 2 && args[1] == httpCommand {
		return true, httpMain(args[2:])
	}
	if len(args) < 2 || args[1] != engineCommand {
		return false, 0
	}
	if len(args) != 5 {
		fmt.Fprintf(os.Stderr, "usage: %s %s PART STATE-DIR CONTAINER\n", args[0], engineCommand)
		return true, 2
	}
	role, dir, id := args[2], args[3], args[4]
	for _, r := range slices.Concat(engineRoles(), runcRoles()) {
		if r.name == role {
			return true, r.main(dir, id)
		}
	}
	fmt.Fprintf(os.Stderr, "%s: no such part of the engine: %q\n", engineCommand, role)
	return true, 2
}

// engineRole is one kind of process of an engine. main gives the exit code.
type engineRole struct {
	name string
	main func(dir, id string) int
}
