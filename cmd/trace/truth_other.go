//go:build !linux || !(amd64 || arm64)

package main

// truthMain does nothing here: the truth programs are made of Linux's system
// calls.
func truthMain([]string) (handled bool, code int) { return false, 0 }
