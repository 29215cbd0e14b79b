package screen

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFor(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Microsecond: "0s", 320 * time.Millisecond: "320ms",
		4260 * time.Millisecond: "4.2s", 9 * time.Second: "9s",
		42 * time.Second: "42s", 5 * time.Minute: "5m", 190 * time.Second: "3m10s", 2 * time.Hour: "2h",
		125 * time.Minute:  "2h05m",
		7 * 24 * time.Hour: "7d", 6*24*time.Hour + 23*time.Hour: "6d23h", -time.Minute: "-1m",
	} {
		if got := For(d); got != want {
			t.Errorf("For(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", time.Millisecond: "0.1s", 950 * time.Millisecond: "1.0s",
		10 * time.Second:                  "10.0s",
		10*time.Second + time.Millisecond: "11s", 59*time.Second + 1: "1m00s", 5 * time.Minute: "5m00s",
	} {
		if got := Left(d); got != want {
			t.Errorf("Left(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		used, whole time.Duration
		want        string
	}{{0, 8, "    "}, {8, 8, "████"}, {4, 8, "██  "}, {1, 8, "▌   "}, {9, 8, "████"}, {-1, 8, "    "}, {1, 0, ""}} {
		if got := Bar(c.used, c.whole, 4); got != c.want {
			t.Errorf("Bar(%d, %d) = %q, want %q", c.used, c.whole, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", " a\nb\tc ": "a b c", "\x1b[2Jgone": "·[2Jgone", "\xff\xfe": "��",
		"größe 日本": "größe 日本", "a\u202eb": "a·b", "": "",
	} {
		if got := Clean(text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mb\r\n\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if got := Clean(text); !clean(got) {
			t.Errorf("Clean(%q) = %q, which is not clean", text, got)
		}
		for _, line := range Wrap(Clean(text), 20) {
			if Width(line) > 20 {
				t.Errorf("%q is wider than 20", line)
			}
		}
	})
}

func TestCut(t *testing.T) {
	l := Line{}.Add(Good, "✓ ").Add(Bold, "日本語の名前").Add(Plain, "  1.2s")
	for width := range 24 {
		if got := l.Cut(width); got.Width() > width {
			t.Errorf("cut to %d: %q is %d wide", width, got, got.Width())
		}
	}
	if got := l.Cut(8).String(); got != "✓ 日本…" {
		t.Errorf("got %q", got)
	}
}

func TestWrap(t *testing.T) {
	got := Wrap("one two three fourteenletters-and-more", 13)
	if want := []string{"one two three", "fourteenlette", "rs-and-more"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPainter holds that a frame writes what changed, in one write, and never clears what stays.
func TestPainter(t *testing.T) {
	var out writes
	p := NewPainter(&out, false)
	paint := func(lines ...string) string {
		t.Helper()
		out = nil
		var frame []Line
		for _, l := range lines {
			frame = append(frame, T(l))
		}
		if err := p.Paint(frame, 80); err != nil {
			t.Fatal(err)
		}
		if len(out) > 1 {
			t.Errorf("%d writes for one frame", len(out))
		}
		return strings.Join(out, "")
	}
	paint("a", "b", "c")
	if got := paint("a", "b", "c"); got != "" {
		t.Errorf("an equal frame wrote %q", got)
	}
	if got := paint("a", "B", "c"); strings.Contains(got, "a") || strings.Contains(got, "c") ||
		!strings.Contains(got, "\x1b[3A") || !strings.Contains(got, "B\x1b[K") {
		t.Errorf("one changed line wrote %q", got)
	}
	if got := paint("a"); !strings.Contains(got, "\x1b[J") {
		t.Errorf("a shorter frame leaves lines behind: %q", got)
	}
	out = nil
	if err := p.Paint([]Line{T("a")}, 40); err != nil || len(out) != 1 {
		t.Errorf("a screen of another width was not drawn anew")
	}
}

type writes []string

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, string(bytes.Clone(b)))
	return len(b), nil
}
