//go:build !linux

// Command vmtest boots Linux kernels with this repository's tests inside.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "vmtest: the tests that it runs in a guest are built on Linux only")
	os.Exit(2)
}
