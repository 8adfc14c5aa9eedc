package main

import (
	"bytes"
	"fmt"
	"testing"
)

// A name in an error is text, on lines that are not taken for the program's.
func TestComplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("open x\ntrace: all is well\x1b[2K\r: no such file"), "trace: open x\n  trace: all is well\\x1b[2K\\x0d: no such file\n"},
		{usagef("what"), "trace: what\nRun 'trace help' or 'trace COMMAND --help' for usage.\n"},
		{silentError{fmt.Errorf("said already")}, ""},
	} {
		var out bytes.Buffer
		complain(&out, c.err)
		if got := out.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
