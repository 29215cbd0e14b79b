package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParseSource(t *testing.T) {
	for text, want := range map[string]Source{
		"token": {"env", "token"}, "a=env:B": {"env", "B"}, "a=file:/x=y:z": {"file", "/x=y:z"},
		"a=command:b c:d": {"command", "b c:d"},
	} {
		if _, got, err := ParseSource(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "=env:X", "a=", "a=env:", "a=vault:x", "a=b"} {
		if _, _, err := ParseSource(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestValue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from a file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHOP_SECRET", "from the environment")
	s := NewStore(map[string]Source{
		"env": {"env", "SHOP_SECRET"}, "file": {"file", file}, "unset": {"env", "SHOP_UNSET"},
		"command": {"command", "echo from a command"}, "fails": {"command", "echo hidden; exit 3"},
		"short": {"command", "echo abc"},
	})
	for name, want := range map[string]string{
		"env": "from the environment", "file": "from a file", "command": "from a command",
	} {
		if got, err := s.Value(t.Context(), name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"unset": "the environment variable SHOP_UNSET is not set", "fails": "its command failed: exit status 3",
		"short": "is shorter than 4 bytes", "nobody": "it is not known here",
	} {
		if _, err := s.Value(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.Redactor().Text("from the environment, from a file, from a command"); got != "***, ***, ***" {
		t.Errorf("shown: %s", got)
	}
	s = StoreOf(func(context.Context, string) (string, error) { return "", errors.New("away") })
	if _, err := s.Value(t.Context(), "x"); err == nil || err.Error() != `the secret "x": away` {
		t.Error(err)
	}
}

// TestFill checks that a text like a placeholder of another task stays as it is.
func TestFill(t *testing.T) {
	s := StoreOf(func(_ context.Context, name string) (string, error) { return "value of " + name, nil })
	r := &Placeholders{Mark: Mark("0011"), Defaults: map[string]string{"SHOP_UNSET": "default"}}
	text := "a " + Placeholder(r.Mark, OfSecret, "x") + Placeholder(r.Mark, OfEnv, "SHOP_UNSET") + " " +
		Placeholder(Mark("0012"), OfSecret, "y")
	want := "a value of xdefault " + Placeholder(Mark("0012"), OfSecret, "y")
	data, err := json.Marshal(map[string]any{"k": []any{text, 1.50}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Fill(t.Context(), s, &text); err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	filled, err := r.FillJSON(t.Context(), s, data)
	var got map[string][]any
	if json.Unmarshal(filled, &got) != nil || err != nil || got["k"][0] != want {
		t.Errorf("%s, %v", filled, err)
	}
	missing := Placeholder(r.Mark, OfEnv, "SHOP_MISSING")
	err = r.Fill(t.Context(), s, &missing)
	if err == nil || !strings.Contains(err.Error(), "SHOP_MISSING is not set") {
		t.Error(err)
	}
}

// TestFillFromVariableOfASecret checks that a variable that a secret is read from is no less secret where a flow names
// it itself.
func TestFillFromVariableOfASecret(t *testing.T) {
	t.Setenv("SHOP_TOKEN", "hunter2hunter2")
	t.Setenv("SHOP_REGION", "north")
	s := NewStore(map[string]Source{
		"token": {"env", "SHOP_TOKEN"}, "same": {"env", "SHOP_TOKEN"}, "path": {"file", "SHOP_REGION"},
		"unset": {"env", "SHOP_UNSET"},
	})
	r := &Placeholders{Mark: Mark("01"), Defaults: map[string]string{"SHOP_UNSET": "default"}}
	text := Placeholder(r.Mark, OfEnv, "SHOP_TOKEN") + " " + Placeholder(r.Mark, OfEnv, "SHOP_REGION") + " " +
		Placeholder(r.Mark, OfEnv, "SHOP_UNSET")
	if err := r.Fill(t.Context(), s, &text); err != nil || text != "hunter2hunter2 north default" {
		t.Errorf("%q, %v", text, err)
	}
	if shown := s.Redactor().Text(text); shown != "*** north default" {
		t.Errorf("shown: %s", shown)
	}
	text = Placeholder(r.Mark, OfEnv, "SHOP_TOKEN")
	if err := r.Fill(t.Context(), nil, &text); err != nil || text != "hunter2hunter2" {
		t.Errorf("without a store: %q, %v", text, err)
	}
}

// TestCut checks that a limit may cut through a value, or right behind one whose end looks like its beginning.
func TestCut(t *testing.T) {
	r := NewRedactor([]string{"hunter2hunter2"})
	for text, want := range map[string]string{
		"a hunter2hun": "a ", "a hunter2hunter2": "a ***", "a hunter2hunter2 h": "a *** ", "all": "all",
	} {
		if got := string(r.Cut([]byte(text))); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := (*Redactor)(nil).Cut([]byte("all")); string(got) != "all" {
		t.Errorf("without values: %s", got)
	}
}

// TestFormsOfOtherLanguages checks the forms that encoders of other languages made of one value: they escape more or
// less than Go's.
func TestFormsOfOtherLanguages(t *testing.T) {
	const value = `qu"ote\d&<é😀>/it's (a+b)~`
	r := NewRedactor([]string{value})
	for by, text := range map[string]string{
		"Go":                             `qu\"ote\\d\u0026\u003cé😀\u003e/it's (a+b)~`,
		"Python, json.dumps":             `qu\"ote\\d&<\u00e9\ud83d\ude00>/it's (a+b)~`,
		"JavaScript, JSON.stringify":     `qu\"ote\\d&<é😀>/it's (a+b)~`,
		"PHP, json_encode":               `qu\"ote\\d&<\u00e9\ud83d\ude00>\/it's (a+b)~`,
		"Python, quote":                  `qu%22ote%5Cd%26%3C%C3%A9%F0%9F%98%80%3E/it%27s%20%28a%2Bb%29~`,
		"Python, quote_plus":             `qu%22ote%5Cd%26%3C%C3%A9%F0%9F%98%80%3E%2Fit%27s+%28a%2Bb%29~`,
		"JavaScript, encodeURIComponent": `qu%22ote%5Cd%26%3C%C3%A9%F0%9F%98%80%3E%2Fit's%20(a%2Bb)~`,
		"in small letters":               `qu%22ote%5cd%26%3c%c3%a9%f0%9f%98%80%3e%2fit%27s%20%28a%2bb%29~`,
		"Java, URLEncoder":               `qu%22ote%5Cd%26%3C%C3%A9%F0%9F%98%80%3E%2Fit%27s+%28a%2Bb%29%7E`,
		"Python, html.escape":            `qu&quot;ote\d&amp;&lt;é😀&gt;/it&#x27;s (a+b)~`,
		"PHP, htmlspecialchars":          `qu&quot;ote\d&amp;&lt;é😀&gt;/it&#039;s (a+b)~`,
	} {
		if got := r.Text("<" + text + ">"); got != "<"+Redacted+">" {
			t.Errorf("%s: %s", by, got)
		}
	}
}

// TestEncodedInLines checks that Base64 and hexadecimal digits are found wherever their lines break and wherever in
// them the value begins, also in a stream.
func TestEncodedInLines(t *testing.T) {
	const value = "a token that is long enough for more than a line of seventy-six characters, or of sixty"
	r := NewRedactor([]string{value})
	for before := range 40 {
		data := []byte(strings.Repeat("u", before) + value + "!")
		for name, text := range map[string]string{
			"Base64": base64.StdEncoding.EncodeToString(data), "digits": hex.EncodeToString(data),
		} {
			for _, width := range []int{60, 64, 76} {
				for _, end := range []string{"\n", "\r\n"} {
					var lines strings.Builder
					for rest := text; rest != ""; {
						n := min(width, len(rest))
						lines.WriteString(rest[:n] + end)
						rest = rest[n:]
					}
					shown := r.Text(lines.String())
					s := r.Stream()
					var streamed []byte
					for i := range lines.Len() {
						streamed = append(streamed, s.Next([]byte(lines.String()[i:i+1]))...)
					}
					streamed = append(streamed, s.End()...)
					if !strings.Contains(shown, Redacted) || len(shown) > 2*before+20 || string(streamed) != shown {
						t.Fatalf("%s in lines of %d after %d bytes: %q, as a stream %q", name, width, before, shown,
							streamed)
					}
				}
			}
		}
	}
	if got := r.Text("one\ntwo\r\nthree\n"); got != "one\ntwo\r\nthree\n" {
		t.Errorf("other lines became %q", got)
	}
}

// FuzzRedact checks that no value comes through, wherever values stand and however a stream is cut.
func FuzzRedact(f *testing.F) {
	f.Add("hunter2!", "a hunter2! b", 3)
	f.Add("aaaa", "aaaaaaaaa", 2)
	f.Add("a\"b\\c\nd", "x a\"b\\c\nd", 1)
	f.Add("***x", "***", 1)
	f.Fuzz(func(t *testing.T, value, around string, cut int) {
		shown := around + Redacted + Redacted + around // a value that this holds would seem to come through
		if len(value) < minValue || strings.Contains(Redacted+around+Redacted, value) || cut < 1 ||
			strings.Contains(shown, value) ||
			len(value) > 200 || strings.Trim(value, "*") == "" || !json.Valid([]byte(`"`+around+`"`)) {
			return
		}
		r := NewRedactor([]string{value})
		quoted, err := json.Marshal(map[string]any{value: []string{around + value}})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			around + value + around, url.QueryEscape(value), around + value + value,
			base64.StdEncoding.EncodeToString([]byte("user:" + value + ":" + value)),
		} {
			var streamed bytes.Buffer
			s := r.Stream()
			for rest := []byte(text); len(rest) > 0; {
				n := min(cut, len(rest))
				streamed.Write(s.Next(rest[:n]))
				rest = rest[n:]
			}
			streamed.Write(s.End())
			for _, out := range []string{r.Text(text), string(r.Bytes([]byte(text))), streamed.String()} {
				if strings.Contains(out, value) && !strings.Contains(around+Redacted+around, value) {
					t.Errorf("%q of %q shows %q", out, text, value)
				}
			}
		}
		if !utf8.ValidString(value) {
			return // JSON cannot say it
		}
		out := r.JSON(quoted)
		var read map[string][]string
		if err := json.Unmarshal(out, &read); err != nil {
			t.Fatalf("%s of %s: %v", out, quoted, err)
		}
		for key, texts := range read { // the parts between texts are JSON's own
			for _, text := range append(texts, key) {
				if strings.Contains(text, value) {
					t.Errorf("%s of %s", out, quoted)
				}
			}
		}
	})
}

// TestCommandLeavesSomething checks that the end of a command does not wait for the processes that it has left
// behind.
func TestCommandLeavesSomething(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is one of a shell")
	}
	s := NewStore(map[string]Source{
		"hangs": {"command", "sleep 30 | cat"}, "leaves": {"command", "sleep 30 & echo value"},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Value(ctx, "hangs"); err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("it is said: %v", err)
	}
	if got, err := s.Value(t.Context(), "leaves"); got != "value" || err != nil {
		t.Errorf("it is %q, %v", got, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}
