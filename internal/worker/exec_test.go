//go:build unix

package worker

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

func TestExecOutput(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want map[string]string
	}{
		"tails and sizes": {
			`echo out; echo err >&2`,
			map[string]string{
				"exitCode": "0", "stdout": `"out\n"`, "stderr": `"err\n"`,
				"stdoutBytes": "4", "stderrBytes": "4",
			},
		},
		"the last JSON object": {
			`echo '{"a":1,"b":0}'; echo '{"a":{"b":"<&>"},"exitCode":9}'; echo done`,
			map[string]string{"a": `{"b":"<&>"}`, "b": "", "exitCode": "0"},
		},
		"an unfinished last line":    {`printf '{"a":2}'`, map[string]string{"a": "2"}},
		"another JSON value":         {`echo '[1, 2]'`, map[string]string{"value": "[1,2]"}},
		"broken JSON does not count": {`echo '{"a":3}'; echo '{"a":'`, map[string]string{"a": "3"}},
		"not UTF-8": {
			`printf 'a\377b\n{"k":"\377"}\n'`,
			map[string]string{"stdout": "\"a\uFFFDb\\n{\\\"k\\\":\\\"\uFFFD\\\"}\\n\"", "k": "\"\uFFFD\""},
		},
		"the results file": {
			`echo '{"a":1,"b":1}'
			{ echo a=two words; echo;
			echo 'text<<END'; echo one; echo 'x=<<'; echo END; echo 'e=mc<<2'; } >>"$PAWL_OUTPUT"`,
			map[string]string{"a": `"two words"`, "b": "1", "text": `"one\nx=<<"`, "e": `"mc<<2"`},
		},
		"a results file taken away": {
			`echo a=1 >>"$PAWL_OUTPUT"; rm "$PAWL_OUTPUT"`, map[string]string{"exitCode": "0", "a": ""},
		},
		"stdin":                   {`cat`, map[string]string{"stdout": `"given"`}},
		"stdin that nobody reads": {`true`, map[string]string{"exitCode": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]any{"stdin": "given", "results": "lines"}
			res := begin(t, ExecConfig{}, shellTask(t, c.line, given)).wait(t)
			if res.Failure != nil {
				t.Fatal(res.Failure)
			}
			for key, want := range c.want {
				if got := workertest.Field(t, res.Output, key); got != want {
					t.Errorf("%s is %s, want %s", key, got, want)
				}
			}
		})
	}
}

func TestExecFailures(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script("hello", "#!/bin/sh\necho hello\n", 0o755)
	shellOf := func(line string) map[string]any { return map[string]any{"shell": line, "results": "lines"} }
	command := func(args ...string) map[string]any { return map[string]any{"command": args} }
	for name, c := range map[string]struct {
		payload  map[string]any
		kind     policy.Kind
		failure  string
		code     int
		mentions string
	}{
		"exit": {
			shellOf(`echo one >&2; echo two >&2; exit 7`), policy.KindError,
			"exit", 7, "exit code 7: two",
		},
		"on stdout": {
			shellOf(`echo one; echo ERROR two; exit 7`), policy.KindError, "exit", 7,
			"exit code 7; last line on stdout: ERROR two",
		},
		"heartbeats": {
			shellOf(`echo one; echo '{"pawl": {"heartbeat": 3}}'; exit 7`), policy.KindError, "exit", 7,
			"exit code 7; last line on stdout: one",
		},
		"heartbeats only": {
			shellOf(`echo '{"pawl":{"heartbeat":{}}}'; exit 7`), policy.KindError, "exit", 7,
			"exit code 7, without any output but heartbeats",
		},
		"silent":         {shellOf(`exit 7`), policy.KindError, "exit", 7, "exit code 7, without any output"},
		"signal":         {shellOf(`kill -SEGV $$`), policy.KindError, "signal", 139, "segmentation fault"},
		"killed":         {shellOf(`kill -KILL $$`), policy.KindError, "signal", 137, "out of memory"},
		"no command":     {command("no-such-program"), policy.KindFailed, "not_found", 0, "install it"},
		"no file":        {command("./no-such-program"), policy.KindFailed, "not_found", 0, "correct the path"},
		"not executable": {command(script("plain", "x", 0o644)), policy.KindFailed, "not_found", 0, "chmod +x"},
		"a folder":       {command(dir), policy.KindFailed, "not_found", 0, "is a folder"},
		"no interpreter": {
			command(script("odd", "#!/no/such/sh\n", 0o755)), policy.KindFailed,
			"not_found", 0, "interpreter",
		},
		"no program": {
			command(script("noise", "\x00\x01", 0o755)), policy.KindFailed,
			"not_found", 0, "#!/bin/sh",
		},
		"no dir": {
			map[string]any{"shell": "true", "dir": dir + "/none"},
			policy.KindFailed,
			"not_found", 0, "correct dir",
		},
		"too much":    {command("true", strings.Repeat("x", 3<<20)), policy.KindFailed, "too_large", 0, "stdin"},
		"a zero byte": {command("true", "a\x00b"), policy.KindFailed, "invalid_payload", 0, "zero byte"},
		"nothing":     {map[string]any{}, policy.KindFailed, "invalid_payload", 0, "give command or shell"},
		"both": {
			map[string]any{"shell": "true", "command": []string{"true"}},
			policy.KindFailed,
			"invalid_payload", 0, "cannot be used together",
		},
		"unknown key":    {map[string]any{"shel": "true"}, policy.KindFailed, "invalid_payload", 0, "shel"},
		"broken results": {shellOf(`echo ok >$PAWL_OUTPUT`), policy.KindFailed, "invalid_output", 0, "line 1"},
		"results too long": {
			shellOf(`head -c 2000000 /dev/zero >$PAWL_OUTPUT`), policy.KindFailed,
			"invalid_output", 0, "larger than",
		},
		"no end": {
			shellOf(`printf 'a<<END\nx' >$PAWL_OUTPUT`), policy.KindFailed, "invalid_output", 0,
			`finish it with a line "END"`,
		},
		"its own words": {
			shellOf(`echo '{"pawl":{"failed":true,"type":"declined","message":"card refused","code":42}}'`),
			policy.KindFailed, "declined", 42, "card refused",
		},
		"its own words and code": {
			shellOf(`echo '{"pawl":{"message":"disk is full"}}'; exit 4`),
			policy.KindError, "exit", 4, "disk is full",
		},
		"its own words with a delay": {
			shellOf(`echo '{"pawl":{"failed":true,"retryAfter":"5s"}}'; exit 1`),
			policy.KindError, "failed", 1, "exit code 1",
		},
		"its own timeout": {
			shellOf(`echo '{"pawl":{"failed":true,"kind":"timeout","message":"no answer"}}'; exit 1`),
			policy.KindTimeout, "failed", 1, "no answer",
		},
		"its own timeout by its exit code": {
			shellOf(`echo '{"pawl":{"kind":"timeout"}}'; exit 4`), policy.KindTimeout, "exit", 4, "exit code 4",
		},
		"its own words with a code of text": {
			shellOf(`echo '{"pawl":{"failed":true,"code":"E42","message":"card refused"}}'`),
			policy.KindFailed, "failed", 0,
			"card refused (its code was ignored: a JSON string where a whole number is expected)",
		},
		"its own words with a type that is a number": {
			shellOf(`echo '{"pawl":{"type":7,"failed":true}}'`), policy.KindFailed, "failed", 0,
			"(its type was ignored: a JSON number where a string is expected)",
		},
		"its own words with a bad delay": {
			shellOf(`echo '{"pawl":{"failed":true,"retryAfter":"soon"}}'`),
			policy.KindError, "failed", 0, "retryAfter was ignored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := begin(t, ExecConfig{}, workertest.Task("exec", workertest.JSON(t, c.payload))).wait(t)
			workertest.WantFailure(t, res.Failure, c.kind, c.failure)
			if res.Failure.Code != c.code || !strings.Contains(res.Failure.Message, c.mentions) {
				t.Errorf("code %d, message %q; want code %d and %q", res.Failure.Code,
					res.Failure.Message, c.code, c.mentions)
			}
			if name == "its own words with a delay" &&
				(res.Failure.RetryAfter == nil || res.Failure.RetryAfter.String() != "5s") {
				t.Errorf("retryAfter is %v", res.Failure.RetryAfter)
			}
		})
	}
	for name, payload := range map[string]map[string]any{
		"relative to dir": {"command": []string{"./hello"}, "dir": dir},
		"in its own PATH": {"command": []string{"hello"}, "env": map[string]string{"PATH": dir}},
	} {
		res := begin(t, ExecConfig{}, workertest.Task("exec", workertest.JSON(t, payload))).wait(t)
		if workertest.Field(t, res.Output, "stdout") != `"hello\n"` {
			t.Errorf("%s: %s, %v", name, res.Output, res.Failure)
		}
	}
}

// TestExecEndlessOutput checks that memory, disk and the attempt's output stay bounded, however much a process writes.
func TestExecEndlessOutput(t *testing.T) {
	dir, task := t.TempDir(), shellTask(t, `echo first; yes; `, nil)
	r := begin(t, ExecConfig{LogDir: dir, LogLimit: 1 << 20}, task)
	for range 2000 {
		r.signs.Await(t)
	}
	r.stop()
	if res := r.wait(t); res.Abandoned || len(res.Output) > 64<<10 {
		t.Errorf("abandoned: %v, %d bytes of output", res.Abandoned, len(res.Output))
	}
	log := readFile(t, LogPath(dir, task.Token, task.StepName))
	if len(log) < 1<<20 || len(log) > 1<<20+200 || !strings.HasPrefix(log, "first\ny\ny\n") ||
		!strings.HasSuffix(log, "y\n") {
		t.Errorf("the log has %d bytes, from %q", len(log), log[:10])
	}
	if !strings.Contains(log, "bytes left out") {
		t.Error("the log does not say that something is missing")
	}
}

func TestExecLog(t *testing.T) {
	dir := t.TempDir()
	task := shellTask(t, `printf 'raw \377\n'; echo problem >&2; head -c 3000 /dev/zero; echo end; exit 1`, nil)
	task.StepName = "../pages/ü[3]"
	res := begin(t, ExecConfig{LogDir: dir, LogLimit: 1000}, task).wait(t)
	path := LogPath(dir, task.Token, task.StepName)
	if want := filepath.Join(dir, task.Token.Run.String(), "%2E.%2Fpages%2F%C3%BC[3].2.log"); path != want {
		t.Errorf("the log is %s, want %s", path, want)
	}
	log := readFile(t, path)
	if len(log) > 1100 || !strings.Contains(log, "raw \xff\n") || !strings.Contains(log, "end\n") ||
		!strings.Contains(log, "left out") {
		t.Errorf("the log is %q", log)
	}
	if workertest.Field(t, res.Output, "log") != workertest.JSON(t, path) ||
		workertest.Field(t, res.Failure.Details, "stderr") != `"problem\n"` {
		t.Errorf("output %s, details %s", res.Output, res.Failure.Details)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 2 { // the log and its marks
		t.Errorf("files left: %v", files)
	}
	if name := fileName(strings.Repeat("x", 300)); len(name) > 250 {
		t.Errorf("a long name became %s", name)
	}
}

func TestExecWithoutItsLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := openLog(filepath.Join(file, "x.log"), 100); err == nil || l != nil {
		t.Error("a log below a file was opened")
	}
	res := begin(t, ExecConfig{LogDir: file}, shellTask(t, "echo fine", nil)).wait(t)
	if res.Failure != nil || workertest.Field(t, res.Output, "stdout") != `"fine\n"` ||
		workertest.Field(t, res.Output, "log") != "" {
		t.Errorf("%s, %v", res.Output, res.Failure)
	}
}

// TestExecCutLog checks that a log that could not be written whole, because the disk is full, is told.
func TestExecCutLog(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	dir, task := t.TempDir(), shellTask(t, "echo lost", nil)
	path := LogPath(dir, task.Token, task.StepName)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(full, path); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	res := begin(t, ExecConfig{LogDir: dir, Log: slog.New(slog.NewTextHandler(&told, nil))}, task).wait(t)
	if res.Failure != nil || !strings.Contains(told.String(), "no space left on device") {
		t.Errorf("%v, told: %q", res.Failure, told.String())
	}
}

// TestCaptureCountsBytes checks that whatever arrives is a sign of life, also if it completes no line, as of a progress
// bar.
func TestCaptureCountsBytes(t *testing.T) {
	for input, want := range map[string]int{"": 0, ".": 1, "9%\r10": 5, "one\n": 4} {
		s := workertest.NewSigns()
		c := newCapture(nil, s, nil)
		c.read(iotest.OneByteReader(strings.NewReader(input)), &c.stdout, true)
		if got := len(s.Outputs); got != want {
			t.Errorf("%q gave %d signs, want %d", input, got, want)
		}
	}
}

// TestCaptureLines checks that the results do not depend on how the output is cut into reads.
func TestCaptureLines(t *testing.T) {
	long := `{"long":"` + strings.Repeat("x", lineSize) + `"}`
	for name, c := range map[string]struct{ input, json, beats, failure string }{
		"last object": {"{\"a\":1}\nx\n{\"a\":2}\ny\n", `{"a":2}`, "", ""},
		"heartbeats":  {"{\"a\":1}\n{\"pawl\":{\"heartbeat\":{\"page\":3}}}\n", `{"a":1}`, `{"page":3}`, ""},
		"failures": {
			`{"pawl":{"failed":true,"type":"x"}}` + "\n" + `{"pawl":{"failed":true,"type":"y"}}` + "\n{\"a\":1}\n",
			`{"a":1}`, "", "y",
		},
		"pawl as plain data": {"{\"pawl\":\"yes\"}\n", `{"pawl":"yes"}`, "", ""},
		"too long a line":    {"{\"a\":1}\n" + long + "\nx", "", "", ""},
		"a too long end":     {"{\"a\":1}\n" + long, "", "", ""},
		"a long text":        {"{\"a\":1}\n[" + long, `{"a":1}`, "", ""},
		"after a long one":   {long + "\n{\"a\":1}\n", `{"a":1}`, "", ""},
		"windows lines":      {"{\"a\":1}\r\n", `{"a":1}`, "", ""},
		"nothing":            {"hello\nworld\n", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, chunkSize} {
				if size == 1 && len(c.input) > lineSize {
					continue
				}
				s := workertest.NewSigns()
				capt := newCapture(nil, s, nil)
				for rest := []byte(c.input); len(rest) > 0; {
					n := min(size, len(rest))
					capt.stdout.addChunk(rest[:n], s)
					rest = rest[n:]
				}
				capt.stdout.finish(s)
				var beats, failure string
				for len(s.Beats) > 0 {
					beats = <-s.Beats
				}
				if capt.stdout.ownFailure != nil {
					failure = capt.stdout.ownFailure.Type
				}
				if got := string(capt.stdout.json); got != c.json || beats != c.beats || failure != c.failure {
					t.Errorf("by %d bytes: %q, heartbeat %q, failure %q", size, Shorten(got, 100), beats, failure)
				}
				if lost := strings.Contains(name, "too long"); capt.stdout.oversized != lost {
					t.Errorf("by %d bytes: a JSON line is lost: %t", size, capt.stdout.oversized)
				}
			}
		})
	}
}

func TestTail(t *testing.T) {
	for size := 1; size < 12; size++ {
		k := tail{size: 5}
		whole := ""
		for i := range 40 {
			part := strings.Repeat(fmt.Sprint(i%10), size)
			whole += part
			k.write([]byte(part))
			if want := whole[max(0, len(whole)-5):]; string(k.bytes()) != want || k.total != int64(len(whole)) {
				t.Fatalf("size %d: %q of %d, want %q", size, k.bytes(), k.total, want)
			}
		}
	}
	k := tail{size: 4}
	k.write([]byte("aééb")) // the cut goes through the first é
	if got := k.text(); got != "éb" {
		t.Errorf("%q", got)
	}
	k = tail{size: 20}
	k.write([]byte("first\n last  \n\n"))
	if got := k.lastLine(); got != "last" {
		t.Errorf("%q", got)
	}
}

// TestExecLongResult checks that a result that is too long for a line fails the attempt, as one that is too long for
// $PAWL_OUTPUT does. It is not left out.
func TestExecLongResult(t *testing.T) {
	line := `echo '{"a":1}'; printf '{"b":"%01100000d"}\n' 0`
	res := begin(t, ExecConfig{}, shellTask(t, line, map[string]any{"results": "lines"})).wait(t)
	if f := res.Failure; f == nil || f.Type != "invalid_output" ||
		!strings.Contains(f.Message, "the last JSON line on stdout is longer than 1048576 bytes") {
		t.Errorf("%+v", f)
	}
	res = begin(t, ExecConfig{}, shellTask(t, line+`; echo '{"c":2}'`, map[string]any{"results": "lines"})).wait(t)
	if res.Failure != nil || !strings.Contains(string(res.Output), `"c":2`) {
		t.Errorf("%+v, %s", res.Failure, res.Output)
	}
}
