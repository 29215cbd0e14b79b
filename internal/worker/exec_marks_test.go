//go:build unix

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// streamsOf returns a log with its streams: <stdout>text<stderr>text.
func streamsOf(t *testing.T, path string) string {
	t.Helper()
	text := readFile(t, path)
	marks, err := LogMarks(path, 0, int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, m := range marks {
		if i == 0 {
			b.WriteString(text[:m.At])
		}
		end := len(text)
		if i+1 < len(marks) {
			end = int(marks[i+1].At)
		}
		b.WriteString("<" + m.Stream + ">" + text[m.At:end])
	}
	if len(marks) == 0 {
		return text
	}
	return b.String()
}

// TestLogMarks checks that marks tell the streams of a log apart, also of one whose middle was left out and of one that
// a second attempt goes on with; and that the output of stdout alone costs no file.
func TestLogMarks(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, limit int64, parts ...string) string {
		path := filepath.Join(dir, name)
		l, err := openLog(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			stream, text, _ := strings.Cut(part, ":")
			l.write(stream, []byte(text))
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", 100, "stdout:a\n", "stdout:b\n")
	if _, err := os.Stat(marksPath(plain)); err == nil || streamsOf(t, plain) != "a\nb\n" {
		t.Error("a log of stdout alone has marks")
	}
	both := []string{"stdout:a\n", "stderr:b\n", "stderr:c\n", "stdout:d\n", "pawl:e\n"}
	path := write("both", 100, both...)
	if got, want := streamsOf(t, path), "a\n<stderr>b\nc\n<stdout>d\n<pawl>e\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	write("both", 100, "stderr:f\n")
	if got, want := streamsOf(t, path), "a\n<stderr>b\nc\n<stdout>d\n<pawl>e\n<stderr>f\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	path = write("cut", 20, "stdout:aa\n", "stderr:0123456789", "stdout:..........", "stderr:xyz\n", "stdout:end\n")
	const cut = "aa\n<stderr>0123456<pawl>\n[pawl: 11 bytes left out: the output is larger than the log's limit]\n" +
		"<stdout>..<stderr>xyz\n<stdout>end\n"
	if got := streamsOf(t, path); got != cut {
		t.Errorf("%q, want %q", got, cut)
	}
	path = write("whole", 20, "stdout:0123456789", "stderr:xyz\n", "stdout:end\n")
	if got, want := streamsOf(t, path), "0123456789<stderr>xyz\n<stdout>end\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLogMarksOfParts checks which marks matter to a part of a log.
func TestLogMarksOfParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(marksPath(path), []byte("2 stderr 7\n4 stdout 8\n9  9\n11 std"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[[2]int64]string{
		{0, 2}: "", {0, 3}: "2 stderr 7\n", {3, 4}: "2 stderr 7\n", {2, 9}: "2 stderr 7\n4 stdout 8\n",
		{5, 20}: "4 stdout 8\n9  9\n", {12, 20}: "9  9\n",
	} {
		marks, err := LogMarks(path, at[0], at[1])
		if got := string(appendMarks(nil, marks...)); err != nil || got != want {
			t.Errorf("from %d to %d: %q, %v; want %q", at[0], at[1], got, err, want)
		}
	}
}

// TestLogMarksHaveTimes checks that a log that grows for long has a mark a second, and that marks are bounded.
func TestLogMarksHaveTimes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := marker{last: LogMark{Stream: StreamStdout, Time: now}}
	n := 0
	for i := range 100 {
		if _, needed := m.next(int64(i), StreamStdout, now); needed {
			n++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if n != 9 {
		t.Errorf("%d marks in ten seconds", n)
	}
	var last LogMark
	for i := range 3 * mostMarks {
		if got, needed := m.next(int64(i), []string{StreamStdout, StreamStderr}[i%2], now); needed {
			last = got
			n++
		}
	}
	if n != mostMarks+1 || last.Stream != StreamUnknown {
		t.Errorf("%d marks, the last one %+v", n, last)
	}
}
