package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"stagetrace/analysis"
)

// schemaOf is the JSON Schema of a Go type, by the rules of encoding/json.
func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		inner := schemaOf(t.Elem())
		if name, ok := inner["type"].(string); ok {
			inner["type"] = []string{name, "null"}
		}
		return inner
	case reflect.Struct:
		props, required := map[string]any{}, []string{}
		for i := range t.NumField() {
			name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			props[name] = schemaOf(t.Field(i).Type)
			if !strings.Contains(opts, "omitempty") {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	}
	panic("no schema for " + t.String())
}

// The schema file is what the Go types say; it is read by others.
func TestSchemaFile(t *testing.T) {
	s := schemaOf(reflect.TypeFor[analysis.Result]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Result of a trace run (result.json)"
	s["properties"].(map[string]any)["schema"] = map[string]any{"const": SchemaVersion}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../result.schema.json", append(text, '\n'))
}

// validate checks a decoded JSON value against the keywords that schemaOf uses.
func validate(schema map[string]any, v any, at string) error {
	if want, ok := schema["const"]; ok {
		if v != want {
			return fmt.Errorf("%s is %v, not %v", at, v, want)
		}
		return nil
	}
	types, ok := schema["type"].([]any)
	if !ok {
		types = []any{schema["type"]}
	}
	for _, name := range types {
		if name == jsonType(v) || name == "number" && jsonType(v) == "integer" {
			return validateInside(schema, v, at)
		}
	}
	return fmt.Errorf("%s is a JSON %s, not %v", at, jsonType(v), types)
}

func jsonType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
	}
	return "number"
}

func validateInside(schema map[string]any, v any, at string) error {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if err := validate(schema["items"].(map[string]any), e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, r := range required {
			if _, ok := v[r.(string)]; !ok {
				return fmt.Errorf("%s has no %s", at, r)
			}
		}
		for k, e := range v {
			inner, ok := props[k].(map[string]any)
			if !ok {
				if inner, ok = schema["additionalProperties"].(map[string]any); !ok {
					return fmt.Errorf("%s has %s, which the schema does not know", at, k)
				}
			}
			if err := validate(inner, e, at+"."+k); err != nil {
				return err
			}
		}
	case float64:
		if lowest, ok := schema["minimum"].(float64); ok && v < lowest {
			return fmt.Errorf("%s is %v", at, v)
		}
	}
	return nil
}

func TestResultsFollowTheSchema(t *testing.T) {
	text, err := os.ReadFile("result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for name, in := range extremes() {
		out := render(t, "json", in)
		if !utf8.Valid(out) {
			t.Errorf("%s: not UTF-8", name)
		}
		var v any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := validate(schema, v, "result"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := validate(schema, map[string]any{"schema": 1.0}, "result"); err == nil {
		t.Error("the validator takes anything")
	}
}

func TestReadResult(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ResultFile)
	good := render(t, "json", newFixture(3).input())
	for _, c := range []struct {
		name string
		text []byte
		err  string // empty: none
	}{
		{"good", good, ""},
		{"cut", good[:len(good)/2], "cut short"},
		{"empty", nil, "is empty"},
		{"not JSON", []byte("<html>"), "not JSON"},
		{"binary", []byte{0x1f, 0x8b, 0, 0xff}, "not JSON"},
		{"newer", []byte(`{"schema": 99, "operations": "many"}`), "schema 99"},
		{"other JSON", []byte(`{"a": 1}`), "no schema number"},
		{"list", []byte(`[]`), "not a result"},
		{"wrong type", []byte(`{"schema": 1, "operations": "many"}`), "operations"},
		{"more behind", append(bytes.Clone(good), "{}"...), "more after"},
		{"unknown key", []byte(`{"schema": 1, "later": true}`), ""},
	} {
		if err := os.WriteFile(file, c.text, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, file} {
			r, err := ReadResult(path)
			if c.err == "" {
				if err != nil || r == nil {
					t.Errorf("%s: %v", c.name, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
		}
	}
	if _, err := ReadResult(filepath.Join(dir, "nothing")); !os.IsNotExist(err) {
		t.Errorf("missing: %v", err)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	first := render(t, "json", newFixture(3).input())
	r, err := ParseResult(first)
	if err != nil {
		t.Fatal(err)
	}
	if again := render(t, "json", &Input{Result: r}); !bytes.Equal(first, again) {
		t.Error("reading and writing changes the result")
	}
}

func TestArgumentsAreBounded(t *testing.T) {
	big := strings.Repeat("ü", 50_000)
	r := &analysis.Result{}
	numbers := make([]string, 5000)
	r.Processes = append(r.Processes, analysis.Process{Argv: []string{"BIGSTART" + big, "rest"}}, analysis.Process{Argv: []string{"a", "", "", "after-empties"}}, analysis.Process{Argv: numbers})
	for range 300 {
		r.Processes = append(r.Processes, analysis.Process{Argv: []string{big, big}})
	}
	text := render(t, "json", &Input{Result: r})
	got, err := ParseResult(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 5_000_000 {
		t.Errorf("%d bytes", len(text))
	}
	p := got.Processes
	if !p[0].Truncated || len(p[0].Argv) != 1 || !strings.HasPrefix(p[0].Argv[0], "BIGSTARTü") || strings.Contains(p[0].Argv[0], `\x`) {
		t.Errorf("big: %v, %d arguments", p[0].Truncated, len(p[0].Argv))
	}
	if p[1].Truncated || strings.Join(p[1].Argv, ",") != "a,,,after-empties" {
		t.Errorf("empties: %+v", p[1])
	}
	if !p[2].Truncated || len(p[2].Argv) != maxArgs {
		t.Errorf("many: %v, %d arguments", p[2].Truncated, len(p[2].Argv))
	}
	if len(r.Processes[0].Argv) != 2 || r.Processes[0].Truncated {
		t.Error("writing changes the result in memory")
	}
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "operations": [{"target": "a", "wall_ns": 1, "stages": []}]}`))
	f.Add([]byte(`{"schema": 2}`))
	f.Add([]byte(`{"schema": 1, "summary": [{"n": 1, "stages": [{"name": "x", "share": 1e300, "median": -1e300}], "overhead": {"ratio": 0}}]}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseResult(text)
		if err != nil {
			return
		}
		for _, format := range Formats() {
			if format.NeedsOperations {
				continue
			}
			var b bytes.Buffer
			if err := format.Write(&b, &Input{Result: r, Width: len(text) % 200}); err != nil {
				t.Fatalf("%s: %v", format.Name, err)
			}
		}
	})
}
