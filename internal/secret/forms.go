package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf16"
)

// formsOf returns how a value looks within JSON, a URL and HTML, as the encoders of several languages write it. They
// differ in what they escape unnecessarily.
func formsOf(value string) []string {
	forms := append(jsonForms(value), urlForms(value)...)
	escaped := html.EscapeString(value) // the form of Go
	for _, quotes := range []*strings.Replacer{
		strings.NewReplacer(),
		strings.NewReplacer("&#34;", "&quot;"),                    // and not the other one
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "'"),      // PHP before 8.1, JavaScript
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;"), // Python, React
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#039;"), // PHP
	} {
		forms = append(forms, quotes.Replace(escaped))
	}
	return forms
}

// jsonForms returns the texts between the quotes.
func jsonForms(value string) (forms []string) {
	for _, inHTML := range []bool{true, false} {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(inHTML) // Go escapes <, > and &, and others do not
		if err := e.Encode(value); err != nil {
			continue
		}
		text := strings.TrimSuffix(out.String(), "\n")
		text = text[1 : len(text)-1]
		for _, text := range []string{text, strings.ReplaceAll(text, "/", `\/`)} { // the second is PHP's
			forms = append(forms, text, inASCII(text, "%04x"), inASCII(text, "%04X"))
		}
	}
	return forms
}

// inASCII escapes non-ASCII characters, in the way of Python and PHP.
func inASCII(text, form string) string {
	var out strings.Builder
	for _, r := range text {
		if r < 0x80 {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u`+form, unit)
		}
	}
	return out.String()
}

var percent = regexp.MustCompile(`%[0-9A-F]{2}`)

// urlForms returns a value as part of a query or a path.
func urlForms(value string) (forms []string) {
	query := url.QueryEscape(value)
	if host, _, cut := strings.Cut(value, "/"); cut && len(host) >= minPart { // the part that errors about a port show
		forms = append(forms, host)
	}
	forms = append(forms, (&url.URL{Path: value}).EscapedPath()) // Go, of a path
	all := []string{query, url.PathEscape(value), strings.ReplaceAll(query, "+", "%20")}
	for _, leaves := range []*strings.Replacer{
		strings.NewReplacer("%2F", "/"), // Python
		strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*"), // JavaScript
		strings.NewReplacer("%2A", "*", "~", "%7E"),                                     // Java
	} {
		all = append(all, leaves.Replace(all[0]), leaves.Replace(all[2]))
	}
	for _, form := range all {
		forms = append(forms, form, percent.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}
