//go:build amd64 || arm64

package workloads

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// engineSpec is what every container of one instance has in common. It lies
// in the instance's state folder, where the engine's processes read it.
type engineSpec struct {
	Args    []string // of the container's program; absolute in its rootfs
	Env     []string
	Rootfs  string   // lower layer, shared by all containers
	Fsync   bool     // state goes through to the disk
	Cgroups []string // folders in which a container's cgroups are made; none: no cgroup
	Unified bool     // Cgroups is one folder, of cgroup v2
	Network string   // none, bridge, host
	Bridge  engineBridge
	Mounts  int // bind mounts of mountSource
}

// Files of a state folder:
//
//	engine.json    the engineSpec
//	engine.log     standard error of the engine's processes
//	rootfs/        the lower layer
//	containers/ID/ config.json state.json upper/ work/ merged/
const (
	specFile      = "engine.json"
	logFile       = "engine.log"
	rootfsDir     = "rootfs"
	containersDir = "containers"
	stateFile     = "state.json" // of a container
)

func readSpec(dir string) (engineSpec, error) {
	var s engineSpec
	b, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, specFile), err)
	}
	if len(s.Args) == 0 {
		return s, fmt.Errorf("%s: no program to run", filepath.Join(dir, specFile))
	}
	return s, nil
}
