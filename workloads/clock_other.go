//go:build !linux

package workloads

import (
	"os"
	"time"
)

var clockOrigin = time.Now()

// monotonic is the runtime's monotonic clock, ns since the process began.
func monotonic() int64 { return int64(time.Since(clockOrigin)) }

// threadID has no portable form; nothing outside of Linux asks for more than
// the process.
func threadID() int { return os.Getpid() }
