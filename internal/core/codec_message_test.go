package core

import (
	"bufio"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// contents has one value of every content of a message.
var contents = zeros(lastContent, (*coder).readContent)

// goldenMessages holds messages as version 1 of their encoding wrote them. A line is never changed; a new field or
// content gets a line of its own, which the test prints.
const goldenMessages = "testdata/0.1.0/messages"

func (f filler) message(i int) Message {
	run, at := born()
	m := Message{To: run, At: at}
	if f.draws(2) == 0 {
		m = Message{Name: "order-1", At: at}
	}
	v := reflect.New(reflect.TypeOf(contents[i])).Elem()
	f.fill(v, 0)
	m.Content = v.Interface().(Content)
	return m
}

func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := filler{t: t, draws: func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }}
		f.full = f.draws(3) == 0
		m := f.message(f.draws(len(contents)))
		src := AppendMessage([]byte("before"), &m)[len("before"):]
		got, err := ReadMessage(src)
		if err != nil || told(reflect.ValueOf(got)) != told(reflect.ValueOf(m)) {
			t.Fatalf("%v\n%s\n%s", err, told(reflect.ValueOf(got)), told(reflect.ValueOf(m)))
		}
		for n := range src {
			if _, err := ReadMessage(src[:n]); !errors.Is(err, ErrBroken) {
				t.Fatalf("the first %d of %d bytes: %v", n, len(src), err)
			}
		}
		if _, err := ReadMessage(append(slices.Clone(src), 0)); !errors.Is(err, ErrBroken) {
			t.Fatalf("a byte too many: %v", err)
		}
	})
}

func TestNewerMessages(t *testing.T) {
	for _, src := range [][]byte{{(messageVersion + 1) << 4}, {messageVersion << 4, 0, lastContent + 1, 0}} {
		if _, err := ReadMessage(src); !errors.Is(err, ErrNewerEntry) {
			t.Errorf("%x: %v", src, err)
		}
	}
}

func TestGoldenMessages(t *testing.T) {
	file, err := os.Open(goldenMessages)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	covered := seen{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		code, want, _ := strings.Cut(lines.Text(), " ")
		src, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ReadMessage(src)
		if err != nil {
			t.Fatalf("%s:%d: %v", goldenMessages, n, err)
		}
		if got := told(reflect.ValueOf(m)); got != want {
			t.Errorf("%s:%d is read as\n%s\nand was written as\n%s", goldenMessages, n, got, want)
		}
		if got := hex.EncodeToString(AppendMessage(nil, &m)); got != code {
			t.Errorf("%s:%d is written as\n%s\nand was\n%s", goldenMessages, n, got, code)
		}
		covered.cover(m)
	}
	for i := range contents {
		for name := range 2 {
			turn := i
			draws := func(n int) int { turn++; return min(n-1, (name+turn)%max(n, 1)) }
			m := filler{full: true, draws: draws}.message(i)
			whole := seen{}
			whole.cover(m)
			for _, what := range slices.Sorted(maps.Keys(whole)) {
				if _, ok := covered[what]; !ok && !strings.HasPrefix(what, "number ") {
					t.Errorf("%s is in no line of %s; add\n%x %s", what, goldenMessages,
						AppendMessage(nil, &m), told(reflect.ValueOf(m)))
					covered.cover(m)
				}
			}
		}
	}
}

// cover notes which fields a message shows.
func (s seen) cover(m Message) {
	content := reflect.ValueOf(m.Content)
	s.walk(content, content.Type().Name())
	m.Content = nil
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() != reflect.Interface && !f.IsZero() {
			s["Message."+v.Type().Field(i).Name] = nil
		}
	}
}
