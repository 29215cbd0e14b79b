package flow

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// compiled returns what is wrong with a flow of one step.
func compiled(t *testing.T, action string) error {
	t.Helper()
	doc, err := Parse("x.yaml", []byte("pawl: 1\nname: x\ninput: {type: object}\nsteps:\n  - {name: a, "+action+"}\n"))
	if err == nil {
		_, err = Compile(doc)
	}
	return err
}

// TestCommandRunsNoValue checks that no value becomes a part of a text that a program runs, and that it may be any
// other word of a command.
func TestCommandRunsNoValue(t *testing.T) {
	for _, command := range []string{
		`[sh, -c, 'echo ${{ input.x }}']`,
		`[sh, -c, '${{ input.x }}']`,
		`[/bin/bash, -euo, pipefail, -c, 'echo "${{ q(input.x) }}"']`,
		`[env, A=b, sh, -ec, 'echo ${{ input.x }}']`,
		`[docker, exec, web, sh, -c, 'ls ${{ input.x }}']`,
		`[su, web, -c, 'ls ${{ input.x }}']`,
		`[python3, -c, 'print("${{ input.x }}")']`,
		`[/usr/bin/python3.12, -c, 'print(${{ q(input.x) }})']`,
		`[node, --eval, 'f(${{ input.x }})']`,
		`[cmd.exe, /c, 'dir ${{ input.x }}']`,
	} {
		if err := compiled(t, "exec: {command: "+command+"}"); err == nil ||
			!strings.Contains(err.Error(), "would run what this expression says") &&
				!strings.Contains(err.Error(), "q does not help here") {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, command := range []string{
		`[sh, -c, 'echo ${{ q(input.x) }}']`,
		`[sh, -c, 'echo "$1"', sh, '${{ input.x }}']`,
		`[sh, script.sh, '${{ input.x }}']`,
		`[python3, -c, 'import sys; print(sys.argv[1])', '${{ input.x }}']`,
		`[grep, -c, '${{ input.x }}', file]`,
		`'${{ input.words }}'`,
	} {
		if err := compiled(t, "exec: {command: "+command+"}"); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestURLKeepsItsParts checks that a value changes no other part of a URL than the one that it stands in.
func TestURLKeepsItsParts(t *testing.T) {
	for _, address := range []string{
		"https://a.example/${{ input.x }}", "https://a.example/x/${{ input.x }}/end",
		"https://a.example/?q=${{ input.x }}",
		"${{ input.base }}/${{ input.x }}", "https://${{ input.host }}/${{ input.x }}", "/x/${{ input.x }}",
		"https://a.example/${{ input.x ?? 'y' }}", "https://a.example/${{ u(input.x) + input.x }}",
	} {
		err := compiled(t, "http: {url: '"+strings.ReplaceAll(address, "'", "''")+"'}")
		if err == nil || !strings.Contains(err.Error(), "could change the path or the query") {
			t.Errorf("%s: %v", address, err)
		}
	}
	const address = "${{ input.base }}/x/${{ u(input.x) }}/end?q=${{ u(input.x) }}&n=${{ 1 + 1 }}"
	for _, value := range []string{"../../admin?z=1#f", "a/b", "%2e%2e", "a b+c", "é&=;", "..x", "\\", "#"} {
		text := urlOf(t, address, map[string]any{"base": "https://a.example:1", "x": value})
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(u.EscapedPath(), "/")
		got, err := url.PathUnescape(parts[2])
		if err != nil || len(parts) != 4 || got != value || u.Host != "a.example:1" || u.Query().Get("q") != value ||
			u.Query().Get("n") != "2" || u.Fragment != "" {
			t.Errorf("%q makes %s", value, text)
		}
	}
	if got := urlOf(t, "https://a.example/${{ u(input.x) }}", map[string]any{"x": []any{"a b", "c/d"}}); got !=
		"https://a.example/a%20b/c%2Fd" {
		t.Error(got)
	}
}

// TestURLRefusesValues checks that a value which leaves its part of a URL by meaning, or is no host, fails the step.
func TestURLRefusesValues(t *testing.T) {
	for _, c := range []struct {
		address string
		value   any
	}{
		{"https://a.example/users/${{ u(input.x) }}", ""},
		{"https://a.example/users/${{ u(input.x) }}/end", ".."},
		{"https://a.example/users/${{ u(input.x) }}/end", []any{"a", "."}},
		{"https://a.example/users/${{ u(input.x) }}", nil},
		{"https://${{ input.x }}/users", "a.example/admin?"},
		{"https://${{ input.x }}/users", "me@b.example"},
		{"https://${{ input.x }}/users", ""},
		{"https://api.${{ input.x }}:80/users", "b\\"},
	} {
		doc := &Document{Name: "x", Steps: []*Step{{Name: "a", Action: &HTTP{URL: V(c.address)}}}}
		input, err := json.Marshal(map[string]any{"x": c.value})
		if err != nil {
			t.Fatal(err)
		}
		if payload, failure := firstTask(t, doc, input); failure == nil {
			t.Errorf("%s with %#v: %s", c.address, c.value, payload)
		}
	}
}

// urlOf returns the URL of a request.
func urlOf(t *testing.T, address string, input map[string]any) string {
	t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var payload struct{ URL string }
	doc := &Document{Name: "x", Steps: []*Step{{Name: "a", Action: &HTTP{URL: V(address)}}}}
	if err := json.Unmarshal(task(t, doc, text), &payload); err != nil {
		t.Fatal(err)
	}
	return payload.URL
}
