package web

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The least contrast of a text to what is behind it, and of a sign that is no text.
const (
	leastOfText = 4.5
	leastOfSign = 3.0
)

// colour is a colour of the page: red, green and blue from 0 to 1.
type colour [3]float64

// readColour reads #rgb and #rrggbb.
func readColour(t *testing.T, text string) colour {
	t.Helper()
	text = strings.TrimPrefix(text, "#")
	if len(text) == 3 {
		text = string([]byte{text[0], text[0], text[1], text[1], text[2], text[2]})
	}
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) != 6 {
		t.Fatalf("%q is not a colour: %v", text, err)
	}
	return colour{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255}
}

// over returns the colour that one sees where c, which one can see through, lies over another one.
func (c colour) over(below colour, opacity float64) (out colour) {
	for i := range c {
		out[i] = c[i]*opacity + below[i]*(1-opacity)
	}
	return out
}

// light returns the relative luminance, as WCAG defines it.
func (c colour) light() float64 {
	sum := 0.0
	for i, share := range []float64{0.2126, 0.7152, 0.0722} {
		v := c[i]
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += share * v
	}
	return sum
}

func contrast(a, b colour) float64 {
	x, y := a.light(), b.light()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

var (
	tokens     = regexp.MustCompile(`--([a-z-]+): light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)`)
	seeThrough = regexp.MustCompile(`\.(bar\.queued rect|came) \{ fill: var\(--hold\); fill-opacity: (\.\d+) \}`)
)

func readStyle(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("app/src/style/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestContrast checks that each colour of a text can be read on what it stands on, in light and dark, and that the
// signs of a timeline stand out. Axe, which looks at the page, does not look at texts in pictures.
func TestContrast(t *testing.T) {
	found := tokens.FindAllStringSubmatch(readStyle(t, "tokens.css"), -1)
	states := []string{"ok", "bad", "warn", "run", "wait", "hold"}
	for i, theme := range []string{"light", "dark"} {
		of := map[string]colour{}
		for _, m := range found {
			of[m[1]] = readColour(t, m[2+i])
		}
		check := func(text, on string, a, b colour, least float64) {
			if have := contrast(a, b); have < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, at least %.1f is wanted", theme, text, on, have, least)
			}
		}
		for _, on := range []string{"ground", "raised", "sunken", "brand-ground"} {
			for _, text := range append([]string{"text", "dim"}, states...) {
				check(text, on, of[text], of[on], leastOfText)
			}
		}
		for _, s := range append(states, "brand") {
			check("on-fill", s, of["on-fill"], of[s], leastOfText) // a number on a bar
			check("text", s+"-ground", of["text"], of[s+"-ground"], leastOfText)
		}
		for _, s := range states {
			check(s, s+"-ground", of[s], of[s+"-ground"], leastOfText) // a chip
		}
		faint := seeThrough.FindAllStringSubmatch(readStyle(t, "timeline.css"), -1)
		if len(faint) != 2 {
			t.Fatalf("the stylesheet has %d signs that one can see through", len(faint))
		}
		for _, m := range faint {
			opacity, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			seen := of["hold"].over(of["raised"], opacity)
			check(fmt.Sprintf("%s of opacity %s", m[1], m[2]), "raised", seen, of["raised"], leastOfSign)
		}
		check("line-strong", "raised", of["line-strong"], of["raised"], leastOfSign) // attempts to come
	}
}
