//go:build amd64 || arm64

package workloads

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
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
}

// engineBridge is the bridge in the host that containers are attached to.
type engineBridge struct {
	Name    string
	Index   int
	Gateway string // its address with the prefix length: 10.88.7.1/24
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

// engineID is the name of an operation's container.
func engineID(op int) string { return "c" + strconv.Itoa(op) }

// linkTag is what the names of the network interfaces of one state folder
// have in common. An interface's name has at most 15 bytes, which is too
// little for the folder's own name, so it is hashed: 7 digits to base 36.
func linkTag(dir string) string {
	h := fnv.New64a()
	h.Write([]byte(filepath.Base(dir)))
	const digits, base7 = 7, 78364164096 // 36^7
	s := strconv.FormatUint(h.Sum64()%base7, 36)
	for len(s) < digits {
		s = "0" + s
	}
	return s
}

// Names of interfaces in the host: one bridge, and the host's end of the veth
// pair of each container.
const (
	bridgePrefix = "stbr"
	vethPrefix   = "stv"
)

func bridgeName(dir string) string { return bridgePrefix + linkTag(dir) }

// vethName is unique among the containers of a state folder that are alive at
// the same time: 5 digits to base 36 is what the name has room for.
func vethName(dir, id string) string {
	n, err := strconv.ParseUint(id[1:], 10, 64)
	if err != nil {
		h := fnv.New64a()
		h.Write([]byte(id))
		n = h.Sum64()
	}
	return vethPrefix + linkTag(dir) + strconv.FormatUint(n%60466176, 36) // 36^5
}
