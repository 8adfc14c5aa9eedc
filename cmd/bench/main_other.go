//go:build !linux

// Command bench measures what tracing costs; what it measures is Linux's.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: the tools it compares exist on Linux only")
	os.Exit(2)
}
