//go:build !unix

package main

import "os"

// stillThere trusts FindProcess, which opens the process on Windows.
func stillThere(p *os.Process) error { return p.Release() }
