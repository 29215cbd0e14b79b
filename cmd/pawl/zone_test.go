package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var (
	timeOfDay = regexp.MustCompile(`\d\d:\d\d:\d\d(?:\.\d+)?[^\n]{0,7}`)
	withZone  = regexp.MustCompile(`^[\d:.]+(Z| UTC| ?[+-]\d\d:\d\d)`)
	ofAttempt = regexp.MustCompile(`(?m)^ +#\d+ +\d\d:\d\d:\d\d\.\d+ .*$`)
)

// TestTimesHaveZones looks at a run with all verbs that show times: each is followed by its zone, but for the starts of
// attempts, which are of the day and the zone in the head above them.
func TestTimesHaveZones(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the zone of a process is not set by TZ there")
	}
	dir := t.TempDir()
	write(t, dir, "zones.yaml", "pawl: 1\nname: zones\ntimeout: {run: 1h}\n"+
		"steps:\n  - {name: work, exec: echo done}\n  - {name: hold, needs: [work], wait: {event: go}, timeout: 30m}\n")
	write(t, dir, "daily.yaml", "pawl: 1\nname: daily\ncron: {schedule: \"0 2 * * *\", zone: Europe/Berlin}\n"+
		"steps: [{name: work, noop: {}}]\n")
	pawl := func(args ...string) string {
		cmd := command(t, dir, args...)
		cmd.Env = append(cmd.Env, "TZ=Asia/Kolkata")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pawl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	pawl("run", "zones.yaml", "--id", "held", "--detach")
	said := map[string]string{"extend": pawl("run", "extend", "held", "--limit", "run", "--by", "1h")}
	pawl("event", "send", "held", "go", "--reason", "early")
	pawl("resume", "held")
	pawl("run", "daily.yaml", "--id", "daily", "--detach")
	for _, verb := range []string{
		"run show @last", "run show held", "run history held", "run events held", "run events held -o json",
		"run show held -o json", "run show held -o yaml", "run list -o json", "doctor",
		"doctor --repair", "run show @daily", "schedule next daily",
		"run backfill daily.yaml --from 2d --dry-run", "run report held -o report.html",
	} {
		said[verb] = pawl(strings.Fields(verb)...)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	said["the report"] = string(page)
	found := 0
	for verb, text := range said {
		for _, at := range timeOfDay.FindAllString(ofAttempt.ReplaceAllString(text, ""), -1) {
			found++
			if !withZone.MatchString(at) {
				t.Errorf("%s shows %q, without a zone:\n%s", verb, at, text)
			}
		}
	}
	if found < 40 || !strings.Contains(said["run show held"], " +05:30") {
		t.Errorf("%d times were looked at: where are they?", found)
	}
}
