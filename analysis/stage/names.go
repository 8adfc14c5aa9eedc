package stage

import "fmt"

// Names gives the indexes of the names that a pattern matches (* and ? stand
// for any characters). The error of a pattern that matches none says which name
// was probably meant.
func Names(pattern string, names []string) ([]int, error) {
	g, err := compileGlob(pattern, false)
	if err != nil {
		return nil, err
	}
	var out []int
	for i, n := range names {
		if g.match(n) {
			out = append(out, i)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("there is no stage %q%s", pattern, hint(pattern, names))
	}
	return out, nil
}
