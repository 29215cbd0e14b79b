package worker

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzResults checks that every file $PAWL_OUTPUT is read or refused, and what was read can be written and read again.
func FuzzResults(f *testing.F) {
	for _, seed := range []string{
		"a=1\nb=x=y\r\n\n", "text<<END\none\ntwo\nEND\n", "a<<\n\n", "=x\n", "a<<b=c\nb=c\n", "a=\xff\xfe\n",
		"no result\n", "{\"a\": 1, \"b\": []}\na=2\n", "{\"pawl\": {\"failed\": true}}\n", "{\"a\": \n",
		"a<<E\nE\na=2", "{\"{\": \"\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, own, err := parseResults(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "$PAWL_OUTPUT, line ") {
				t.Errorf("an error without a place: %v", err)
			}
			return
		}
		if _, err := json.Marshal(values); err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		for name, value := range values {
			value, text := value.(string)
			if !text || own != nil {
				return // this one is out of a JSON object
			}
			if name == "" || name != strings.TrimSpace(name) || name[0] == '{' || strings.ContainsAny(name, "\r\n") {
				return // only as an object can it be written
			}
			again.WriteString(name + "<<=END OF THE VALUE=\n" + value + "\n=END OF THE VALUE=\n")
			if strings.Contains(value, "=END") || strings.ContainsAny(name, "=<") {
				return
			}
		}
		read, _, err := parseResults(again.Bytes())
		if err != nil || len(values) > 0 && !reflect.DeepEqual(read, values) {
			t.Errorf("written and read again, %q is %q (%v)", values, read, err)
		}
	})
}

// silent takes signs of life and forgets them.
type silent struct{}

func (silent) Output()            {}
func (silent) Heartbeat(_ []byte) {}

// FuzzLines checks that the last line of JSON and the last failure that a process reports are found however the
// operating system cuts what it writes.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"{\"a\": 1}\n", "x\n[1]\n{\"pawl\": {\"heartbeat\": 1}}\n",
		"{\"pawl\": {\"type\": \"X\", \"message\": \"m\"}}\n5\n",
		"{\"pawl\": 5}\n{\"pawl\": {}}", "\"text\"\r\n\n  true  \nnot json {\n", "{\"a\":\n1}\n",
	} {
		f.Add([]byte(seed), uint16(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint16) {
		var whole, cut stream
		whole.addChunk(bytes.Clone(data), silent{})
		whole.finish(silent{})
		for rest := data; len(rest) > 0; {
			n := min(len(rest), int(size)%97+1)
			cut.addChunk(bytes.Clone(rest[:n]), silent{})
			rest = rest[n:]
		}
		cut.finish(silent{})
		if !bytes.Equal(whole.json, cut.json) || !reflect.DeepEqual(whole.ownFailure, cut.ownFailure) {
			t.Errorf("at once: %s, %+v; in parts of %d: %s, %+v", whole.json, whole.ownFailure, int(size)%97+1,
				cut.json, cut.ownFailure)
		}
		if whole.json != nil && !json.Valid(whole.json) {
			t.Errorf("the result is %q", whole.json)
		}
	})
}
