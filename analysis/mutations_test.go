package analysis

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/tracer/tracetest"
)

// mutation takes one rule out of the analysis: the old text, which is in its
// file exactly once, is replaced; then the named test must fail.
type mutation struct {
	rule     string // number of the edge case, or a word
	title    string
	file     string
	test     string // TestStories/NAME for a story
	folder   string // of the package that the test is in
	old, new string
	none     string // why no story can show it; the rest is empty
	line     int
}

const storyTest = "TestStories/"

// parseMutations reads testdata/mutations.txt; its head says how it is written.
func parseMutations(text string) (list []mutation, err error) {
	in := bufio.NewScanner(strings.NewReader(text))
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		if rule, ok := strings.CutPrefix(line, "== "); ok {
			rule, title, _ := strings.Cut(rule, " ")
			list = append(list, mutation{rule: rule, title: title, folder: ".", line: n})
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("line %d: before the first rule", n)
		}
		m := &list[len(list)-1]
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line[0] == '-':
			m.old += line[1:] + "\n"
		case line[0] == '+':
			m.new += line[1:] + "\n"
		case word == "file":
			m.file = rest
		case word == "story":
			m.test = storyTest + rest
		case word == "test":
			m.test = rest
		case word == "folder":
			m.folder = rest
		case word == "none":
			m.none = strings.TrimSpace(m.none + " " + rest)
		default:
			return nil, fmt.Errorf("line %d: %q", n, line)
		}
	}
	for i := range list {
		list[i].old = strings.TrimSuffix(list[i].old, "\n")
		list[i].new = strings.TrimSuffix(list[i].new, "\n")
	}
	return list, in.Err()
}

// apply gives the file's text with the rule taken out.
func (m *mutation) apply() (string, error) {
	text, err := os.ReadFile(filepath.FromSlash(m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); m.old == "" || n != 1 {
		return "", fmt.Errorf("the old text is in %s %d times, not once: the rule has changed, so must its mutation", m.file, n)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

func mutations(t *testing.T) []mutation {
	t.Helper()
	text, err := os.ReadFile("testdata/mutations.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseMutations(string(text))
	if err != nil {
		t.Fatalf("mutations.txt: %v", err)
	}
	return list
}

// edgeCases is how many cases the critical path has that need a rule.
const edgeCases = 26

// TestMutationList keeps the list true: every edge case has a mutation or a
// reason why not, and every mutation still fits the code.
func TestMutationList(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutations(t) {
		seen[m.rule] = true
		if m.none != "" {
			if m.file+m.test+m.old+m.new != "" {
				t.Errorf("line %d: a reason why not, and a mutation", m.line)
			}
			continue
		}
		if story, ok := strings.CutPrefix(m.test, storyTest); ok {
			if _, err := os.Stat(filepath.Join("testdata", story+".trace")); err != nil {
				t.Errorf("line %d: %v", m.line, err)
			}
		}
		if _, err := m.apply(); err != nil {
			t.Errorf("line %d: %s: %v", m.line, m.title, err)
		}
	}
	for i := 1; i <= edgeCases; i++ {
		if !seen[fmt.Sprint(i)] {
			t.Errorf("edge case %d is not in the list", i)
		}
	}
}

// TestMutations takes one rule after the other out and demands that its test
// fails: a rule that no test misses may be gone tomorrow.
func TestMutations(t *testing.T) {
	if os.Getenv(tracetest.RequireEnv) == "" {
		t.Skip("builds the package once per rule, which takes a minute or two: make mutate, or set " + tracetest.RequireEnv)
	}
	for _, m := range mutations(t) {
		if m.none != "" {
			continue
		}
		t.Run(fmt.Sprintf("%s@%d", m.rule, m.line), func(t *testing.T) {
			t.Parallel()
			out, err := m.run(t.TempDir())
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && strings.Contains(out, "--- FAIL: "+m.test+" "):
			case err == nil:
				t.Errorf("mutations.txt:%d: without %q, %s passes", m.line, m.title, m.test)
			default:
				t.Errorf("mutations.txt:%d: %s: %v\n%s", m.line, m.title, err, out)
			}
		})
	}
}

// run builds the package's tests without the rule and runs its test.
func (m *mutation) run(dir string) (out string, err error) {
	text, err := m.apply()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.FromSlash(m.file))
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(original))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "stories.test")
	if err := errors.Join(os.WriteFile(mutated, []byte(text), 0o644), os.WriteFile(list, overlay, 0o644)); err != nil {
		return "", err
	}
	// Not optimised: what is built runs once.
	build, err := exec.Command("go", "test", "-c", "-gcflags=-N -l", "-ldflags=-s -w", "-overlay", list, "-o", binary, m.folder).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("it does not compile: %s", build)
	}
	test := exec.Command(binary, "-test.run", "^"+strings.ReplaceAll(m.test, "/", "$/^")+"$", "-test.timeout", "1m")
	test.Dir = filepath.FromSlash(m.folder)
	if m.folder == "." { // random worlds are the same in every run
		test.Args = append(test.Args, "-rapid.nofailfile", "-rapid.seed=1")
	}
	ran, err := test.CombinedOutput()
	return string(ran), err
}
