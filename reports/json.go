package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"

	"stagetrace/analysis"
)

// SchemaVersion is the version of result.json that is written, and the newest that is
// read. It grows when a reader of the older one would be misled.
const SchemaVersion = 1

// ResultFile is the name of the result in its folder.
const ResultFile = "result.json"

// Bounds on the arguments of processes: one `rm` of a whole tree can have
// megabytes of them, and a build has thousands of processes.
const (
	maxArgs      = 4096
	maxArgBytes  = 64 << 10 // of one process
	maxAllArgs   = 2 << 20  // of all processes; once they have that much,
	laterArgs    = 1 << 10  // each further one has this much
	maxResultLen = 4 << 30
)

// writeJSON writes the result: keys in the order of the Go types, indented,
// valid UTF-8 (bytes that are not become \xNN), what is not visible escaped, every list present, every
// number finite, arguments bounded.
func writeJSON(w io.Writer, in *Input) error {
	r := plain(in.Result)
	r.Schema = SchemaVersion
	boundArgs(r.Processes)
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	_, err = w.Write(append(escapeJSON(text), '\n'))
	return err
}

// boundArgs cuts argument lists in place and marks those that were cut.
func boundArgs(ps []analysis.Process) {
	total := 0
	for i := range ps {
		budget := maxArgBytes
		if total > maxAllArgs {
			budget = laterArgs
		}
		kept, used := boundArgv(ps[i].Argv, budget)
		ps[i].Truncated = ps[i].Truncated || kept.cut
		ps[i].Argv = kept.argv
		total += used
	}
}

type bounded struct {
	argv []string
	cut  bool
}

func boundArgv(argv []string, budget int) (b bounded, used int) {
	b.argv = make([]string, 0, min(len(argv), maxArgs))
	for _, a := range argv {
		if len(b.argv) == maxArgs || used >= budget {
			b.cut = true
			break
		}
		if len(a) > budget-used {
			// Not in the middle of a rune: it would be read as a broken byte.
			a, b.cut = validText(cutRune(a, budget-used)), true
		}
		b.argv = append(b.argv, a)
		used += len(a) + 1
	}
	return b, used
}

func cutRune(s string, n int) string {
	for n > 0 && n < len(s) && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// plain is a deep copy that any JSON writer can take: valid text, finite
// numbers (nil where a pointer's value is not), empty lists and maps for nil
// ones, unless they are left out when empty.
func plain(r *analysis.Result) *analysis.Result {
	if r == nil {
		r = &analysis.Result{}
	}
	return plainValue(reflect.ValueOf(r)).Interface().(*analysis.Result)
}

func plainValue(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(validText(v.String()))
	case reflect.Float64:
		out.SetFloat(finite(v.Float()))
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() == reflect.Float64 && notFinite(v.Elem().Float()) {
			return out
		}
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(plainValue(v.Elem()))
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(plainValue(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(plainValue(it.Key()), plainValue(it.Value()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(plainValue(v.Field(i)))
		}
	default:
		out.Set(v)
	}
	return out
}

func notFinite(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }

// ReadResult reads the result of a folder, or a result file. The errors say
// what is wrong with it: not there, not JSON, cut short, not a result, or
// written by a newer version.
func ReadResult(dirOrFile string) (*analysis.Result, error) {
	name := dirOrFile
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		name = filepath.Join(name, ResultFile)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxResultLen))
	if err != nil {
		return nil, err
	}
	r, err := ParseResult(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Clean(name), err)
	}
	return r, nil
}

// ParseResult is ReadResult of the file's text.
func ParseResult(text []byte) (*analysis.Result, error) {
	// The version first: the rest of a newer one may not even have our types.
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := decode(text, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Schema == nil || *head.Schema < 1:
		return nil, errors.New("not a result: it has no schema number")
	case *head.Schema > SchemaVersion:
		return nil, fmt.Errorf("has schema %d and this version reads up to %d: use a newer trace", *head.Schema, SchemaVersion)
	}
	r := new(analysis.Result)
	if err := decode(text, r); err != nil {
		return nil, err
	}
	return r, nil
}

func decode(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(into)
	var (
		syntax *json.SyntaxError
		typ    *json.UnmarshalTypeError
	)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return errors.New("is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("is cut short: it ends after %d bytes in the middle of the JSON", len(text))
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: byte %d: %w", syntax.Offset, err)
	case errors.As(err, &typ):
		return fmt.Errorf("not a result: %s is a JSON %s", Clean(typ.Field), typ.Value)
	default:
		return fmt.Errorf("not a result: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a result: there is more after the JSON value")
	}
	return nil
}
