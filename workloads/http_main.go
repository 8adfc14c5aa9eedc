package workloads

import (
	"fmt"
	"os"
)

// httpCommand is the hidden first argument with which this program runs itself
// as a part of http-serve.
const httpCommand = "__http"

// httpPart is one kind of process of http-serve.
type httpPart struct {
	name string
	main func(args []string) error
}

func httpParts() []httpPart {
	parts := []httpPart{{"load", loadMain}, {"go", goServerMain}}
	return append(parts, httpSystemParts()...)
}

// httpMain runs this process as the part that args name, and gives the exit code.
func httpMain(args []string) int {
	for _, p := range httpParts() {
		if len(args) > 0 && p.name == args[0] {
			if err := p.main(args[1:]); err != nil {
				fmt.Fprintf(os.Stderr, "%s %s: %v\n", httpCommand, p.name, err)
				return 1
			}
			return 0
		}
	}
	fmt.Fprintf(os.Stderr, "%s: no such part\n", httpCommand)
	return 2
}
