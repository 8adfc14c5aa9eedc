package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImport(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := write("result.json", `{"schema":1,"host":{"name":"far"},"summary":[{"target":"kiri","n":3,"wall":{"n":3,"median":2550000,"lo":null,"hi":null,"p95":4720000,"p99":4720000}}]}`)
	theirs := write("hyperfine.json", `{"results":[{"command":"bun hello.js","mean":0.0016,"times":[0.001,0.002,0.003]}]}`)
	list, err := importFigures([]string{ours, theirs})
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if a := list[0]; a.Target != "kiri" || a.From != "result.json" || a.Host != "far" || a.Wall.Median != 2.55e6 || a.Wall.N != 3 {
		t.Errorf("%+v", a)
	}
	if b := list[1]; b.Target != "bun hello.js" || b.From != "hyperfine.json" || b.Wall.Median != 2e6 || b.Wall.N != 3 || b.Wall.Max != 3e6 {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		`{`:  "unexpected end",
		`{}`: "neither",
		`{"summary":[{"target":"x","wall":{"n":0}}]}`:             "no times",
		`{"summary":[{"target":"x","wall":{"n":1,"median":-1}}]}`: "no times",
		`{"results":[{"command":"x","times":[]}]}`:                "no times",
		`{"results":[{"command":"x","times":[-1]}]}`:              "no time",
		`{"results":[{"command":"x","times":[1e300]}]}`:           "no time",
		`{"results":[{"command":"x","times":["soon"]}]}`:          "cannot unmarshal",
	} {
		if _, err := importFigures([]string{write("bad.json", text)}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := importFigures([]string{filepath.Join(dir, "missing")}); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func FuzzParseFigures(f *testing.F) {
	f.Add([]byte(`{"host":{"name":"h"},"summary":[{"target":"t","wall":{"n":1,"median":5,"lo":1,"hi":9,"p95":5,"p99":5}}]}`))
	f.Add([]byte(`{"results":[{"command":"c","times":[0.1,0.2]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseFigures(data)
		if err == nil && len(list) == 0 {
			t.Error("neither figures nor an error")
		}
		for _, i := range list {
			if err == nil && (i.Wall.N <= 0 || !isTime(i.Wall.Median)) {
				t.Errorf("%+v", i)
			}
		}
	})
}
