package pawl

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"testing"
)

// What is read and written without encoding/json is what encoding/json reads and writes.
func TestPlainValues(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "1", "-1", "007", "-", "", "12 ", " 12", "1.0", "1e3", "+1", "--1", "1-", "999999999999999999",
		"-999999999999999999", strconv.Itoa(math.MaxInt64), strconv.Itoa(math.MinInt64), "9223372036854775808",
		"true", "false", "True", "tru", "null", `"text"`, `"1"`, "{}", "[1]", "0x10", "1_000",
	} {
		for _, to := range []any{new(int), new(int64), new(bool), new(string), new(any)} {
			want := reflect.New(reflect.TypeOf(to).Elem()).Interface()
			err := json.Unmarshal([]byte(text), want)
			if readPlain([]byte(text), to) && (err != nil || !reflect.DeepEqual(to, want)) {
				t.Errorf("%q is read as %v into a %T; encoding/json: %v, %v", text, reflect.ValueOf(to).Elem(), to,
					reflect.ValueOf(want).Elem(), err)
			}
		}
	}
	for _, v := range []any{
		0, -1, math.MaxInt, math.MinInt, int64(math.MinInt64), true, false, "text", "", `"`, "a<b", "\x00", 1.5, nil,
	} {
		want, err := json.Marshal(v)
		if b, ok := writePlain(v); ok && (err != nil || string(b) != string(want)) {
			t.Errorf("%v is written as %s; encoding/json: %s, %v", v, b, want, err)
		}
	}
	for text, to := range map[string]any{"12": new(int), "-12": new(int64), "true": new(bool), `"x"`: new(string)} {
		if !readPlain([]byte(text), to) {
			t.Errorf("%s is not read", text)
		}
	}
}
