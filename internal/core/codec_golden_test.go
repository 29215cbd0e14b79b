package core

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// goldenFile holds entries as version 1 of the encoding wrote them, each with what it says. Journals on people's
// disks hold such bytes, so a line is never changed; a new field or record gets a line of its own, which the test
// prints.
const goldenFile = "testdata/0.1.0/entries"

// TestGoldenEntries reads bytes of the past. A codec that reads and writes alike passes every round trip, also one
// whose fields or numbers have changed places since a journal was written.
func TestGoldenEntries(t *testing.T) {
	file, err := os.Open(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	covered := seen{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		code, want, _ := strings.Cut(lines.Text(), " ")
		if code == "#" {
			continue
		}
		src, err := hex.DecodeString(code)
		if err != nil {
			t.Fatalf("%s:%d: %v", goldenFile, n, err)
		}
		e, rest, err := ReadEntry(src)
		if err != nil || len(rest) != 0 {
			t.Errorf("%s:%d: %v, %d bytes too many", goldenFile, n, err, len(rest))
			continue
		}
		if got := told(reflect.ValueOf(e)); got != want {
			t.Errorf("%s:%d is read as\n%s\nand was written as\n%s", goldenFile, n, got, want)
		}
		if got := hex.EncodeToString(AppendEntry(nil, &e)); got != code {
			t.Errorf("%s:%d is written as\n%s\nand was\n%s", goldenFile, n, got, code)
		}
		for _, r := range e.Records {
			covered.add(r)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	wantGolden(t, covered)
}

// wantGolden fails for every field of a record, and every number of an enumeration, that no line shows, and gives the
// line to add.
func wantGolden(t *testing.T, covered seen) {
	t.Helper()
	run, at := born()
	for i := range recordTypes {
		turn := i
		f := filler{full: true, draws: func(n int) int { turn++; return min(n-1, 1+turn%max(n-1, 1)) }}
		r := f.record(i)
		whole := seen{}
		whole.add(r)
		records := map[string]Record{} // a record to show it, by what is missing
		for what, number := range whole {
			if number == nil {
				records[what] = r
				continue
			}
			for n := uint64(1); strings.HasPrefix(what, "number ") && !isUnknown(number, n); n++ {
				shown := reflect.New(reflect.TypeOf(r)).Elem()
				shown.Set(reflect.ValueOf(f.record(i)))
				setNumbers(shown, number, n)
				records[numberOf(number, n)] = shown.Interface().(Record)
			}
		}
		for _, what := range slices.Sorted(maps.Keys(records)) {
			if _, ok := covered[what]; !ok {
				e := Entry{Run: run, At: at, Records: []Record{records[what]}}
				t.Errorf("%s is in no line of %s; add\n%x %s", what, goldenFile, AppendEntry(nil, &e),
					told(reflect.ValueOf(e)))
				covered.add(records[what])
			}
		}
	}
}

// seen is what records show: the paths of fields that are not zero, with nil, and numbers of enumerations, with their
// type.
type seen map[string]reflect.Type

func (s seen) add(r Record) { s.walk(reflect.ValueOf(r), reflect.TypeOf(r).Name()) }

func (s seen) walk(v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		if !v.IsZero() {
			s[path] = nil
		}
		if v.Kind() == reflect.Uint8 && v.Type().Name() != "uint8" {
			s[numberOf(v.Type(), v.Uint())] = v.Type()
		}
		return
	}
	s[path] = nil
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name != "Cause" || !strings.Contains(path, ".Cause") { // a cause may have a cause, and so on
			s.walk(v.Field(i), path+"."+name)
		}
	}
}

func numberOf(of reflect.Type, n uint64) string { return fmt.Sprintf("number %d of %s", n, of) }

// isUnknown reports whether the enumeration ends before n.
func isUnknown(of reflect.Type, n uint64) bool {
	v := reflect.New(of).Elem()
	v.SetUint(n)
	named, ok := v.Interface().(fmt.Stringer)
	return !ok || strings.HasPrefix(named.String(), "unknown") || n > 200
}

// setNumbers sets every field of that type.
func setNumbers(v reflect.Value, of reflect.Type, n uint64) {
	switch {
	case v.Type() == of:
		v.SetUint(n)
	case v.Kind() == reflect.Pointer && !v.IsNil():
		setNumbers(v.Elem(), of, n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			setNumbers(v.Field(i), of, n)
		}
	}
}

// told writes a value with the names of its fields, without those that are zero: what an older entry cannot say, it
// does not say.
func told(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		if v.Kind() == reflect.Interface {
			return v.Elem().Type().Name() + told(v.Elem())
		}
		return told(v.Elem())
	case v.Type() == reflect.TypeFor[Time]():
		return fmt.Sprint(v.Int())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return fmt.Sprintf("%q", v.Bytes())
	case v.Kind() == reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = told(v.Index(i))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case v.Kind() == reflect.String:
		return fmt.Sprintf("%q", v.String())
	case v.Kind() != reflect.Struct:
		return fmt.Sprint(v.Interface())
	}
	var parts []string
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			parts = append(parts, v.Type().Field(i).Name+": "+told(f))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
