package reports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stagetrace/analysis"
)

// The file obeys the schema that comes with speedscope.
func TestSpeedscopeSchema(t *testing.T) {
	text, err := os.ReadFile("testdata/speedscope/file-format-schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for name, in := range extremes() {
		var v any
		if err := json.Unmarshal(render(t, "speedscope", in), &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := draft7(schema, schema, v, "file"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{`{}`, `{"$schema": "x"}`, `[]`} {
		var v any
		if err := json.Unmarshal([]byte(bad), &v); err != nil {
			t.Fatal(err)
		}
		if draft7(schema, schema, v, "file") == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// draft7 checks a decoded JSON value against the keywords that speedscope's
// schema uses. It fails on one that it does not know.
func draft7(root, schema map[string]any, v any, at string) error {
	for keyword, arg := range schema {
		var err error
		switch keyword {
		case "$schema", "title", "definitions":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/definitions/")
			inner, ok := root["definitions"].(map[string]any)[name].(map[string]any)
			if !ok {
				return fmt.Errorf("no definition %s", arg)
			}
			err = draft7(root, inner, v, at)
		case "anyOf":
			err = anyOf(root, arg.([]any), v, at)
		case "const":
			if v != arg {
				err = fmt.Errorf("%s is %v, not %v", at, v, arg)
			}
		case "enum":
			err = fmt.Errorf("%s is %v, not one of %v", at, v, arg)
			for _, one := range arg.([]any) {
				if v == one {
					err = nil
				}
			}
		case "type":
			kinds := map[string]string{"object": "map[string]interface {}", "array": "[]interface {}", "string": "string", "number": "float64"}
			if got := fmt.Sprintf("%T", v); got != kinds[arg.(string)] {
				err = fmt.Errorf("%s is %s, not %s", at, got, arg)
			}
		case "required":
			object, _ := v.(map[string]any)
			for _, name := range arg.([]any) {
				if _, ok := object[name.(string)]; !ok {
					err = fmt.Errorf("%s has no %s", at, name)
				}
			}
		case "properties":
			object, _ := v.(map[string]any)
			for name, inner := range arg.(map[string]any) {
				if value, ok := object[name]; ok && err == nil {
					err = draft7(root, inner.(map[string]any), value, at+"."+name)
				}
			}
		case "items":
			list, _ := v.([]any)
			for i, e := range list {
				if err == nil {
					err = draft7(root, arg.(map[string]any), e, fmt.Sprintf("%s[%d]", at, i))
				}
			}
		default:
			err = fmt.Errorf("keyword %s of the schema", keyword)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func anyOf(root map[string]any, choices []any, v any, at string) (err error) {
	for _, c := range choices {
		if err = draft7(root, c.(map[string]any), v, at); err == nil {
			return nil
		}
	}
	return err
}

// imported is what speedscope understood of a file.
type imported struct {
	Name     string
	Active   int
	Profiles []struct {
		Name, Unit string
		Total      float64
		Self       map[string]float64
	}
}

// speedscopePackage is the package whose importer the test runs, fetched once.
const speedscopePackage = "speedscope@1.25.0"

// speedscopeImporter fetches the package. Where that cannot be done the schema
// has to do.
func speedscopeImporter(t *testing.T) func(name string, content []byte) imported {
	t.Helper()
	for _, tool := range []string{"node", "npm", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("speedscope's importer needs %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	fetch := exec.CommandContext(ctx, "sh", "-c", "npm pack --silent "+speedscopePackage+" && tar -xzf speedscope-*.tgz")
	fetch.Dir = dir
	fetch.WaitDelay = time.Second
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("%s cannot be fetched here: %v\n%s", speedscopePackage, err, out)
	}
	return func(name string, content []byte) (got imported) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("node", "testdata/speedscope/import.js", filepath.Join(dir, "package"), file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, stderr.String())
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return got
	}
}

// What speedscope's own importer makes of our files: a profile per operation
// that weighs its wall time, all of them together, the CPU samples; and of the
// Chrome format its threads.
func TestSpeedscopeImporter(t *testing.T) {
	read := speedscopeImporter(t)
	f := newFixture(3)
	got := read("wall.speedscope.json", render(t, "speedscope", f.input()))
	if len(got.Profiles) != len(f.ops)+2 || got.Active != len(f.ops) || !strings.Contains(got.Name, "Lost: 12 events") {
		t.Fatalf("%d profiles, the first shown is %d, named %q", len(got.Profiles), got.Active, got.Name)
	}
	var wall float64
	self := map[string]float64{}
	for i, op := range f.ops {
		p := got.Profiles[i]
		if p.Total != float64(op.WallNs) || p.Unit != "nanoseconds" || !strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(p.Name, " (lost events)"), " (failed)"), fmt.Sprintf("#%d", op.Index)) {
			t.Errorf("operation %d: %+v", op.Index, p)
		}
		wall += p.Total
		for name, ns := range p.Self {
			self[name] += ns
		}
	}
	if all := got.Profiles[got.Active]; all.Total != wall || fmt.Sprint(all.Self) != fmt.Sprint(self) {
		t.Errorf("all operations: %+v, want %v of %v", all, self, wall)
	}
	if got := read("nothing.json", render(t, "speedscope", extremes()["nothing"])); len(got.Profiles) != 2 {
		t.Errorf("no operations: %+v", got)
	}
	in := oneAfterTheOther(2)
	var paths, threads float64
	eachOperation(t, in, func(op *analysis.Operation) { paths += float64(op.WallNs) })
	for _, p := range read("trace.json", render(t, "chrome", in)).Profiles {
		if strings.Contains(p.Name, "operations: ") {
			threads += p.Total * 1000
		}
	}
	if threads < paths {
		t.Errorf("the track of the operations is %v ns long, they took %v", threads, paths)
	}
}
