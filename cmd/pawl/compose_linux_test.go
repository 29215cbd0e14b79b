package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// composed is what Docker reads of the services in docs/operations/compose.yaml.
type composed struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Volumes     []string
		Secrets     []string
		Grace       string `yaml:"stop_grace_period"`
	}
}

// compose makes the next pod that of a service: with its command, its settings, its volumes and its secrets. Its names
// of other services become their addresses.
func (d *deployment) compose(all composed, service string, addresses *strings.Replacer) {
	d.Helper()
	s, found := all.Services[service]
	if !found || len(s.Command) == 0 || len(s.Environment) < 5 || len(s.Secrets) != 1 {
		d.Fatalf("the service %s is read as %+v", service, s)
	}
	grace, err := time.ParseDuration(s.Grace)
	if err != nil {
		d.Fatal(err)
	}
	d.pod.Grace = int(grace.Seconds())
	var c container
	node := map[string]any{"args": s.Command, "ports": []any{map[string]int{"containerPort": 7295}}}
	var env, mounts []any
	for name, value := range s.Environment {
		env = append(env, map[string]string{"name": name, "value": addresses.Replace(value)})
	}
	for _, volume := range s.Volumes { // ./flows:/flows:ro
		from, at, _ := strings.Cut(volume, ":")
		at, _, _ = strings.Cut(at, ":")
		mounts = append(mounts, map[string]string{"name": path.Base(from), "mountPath": at})
	}
	mounts = append(mounts, map[string]string{"name": "secret", "mountPath": "/run/secrets"})
	node["env"], node["volumeMounts"] = env, mounts
	text, err := yaml.Marshal(node)
	if err == nil {
		err = yaml.Unmarshal(text, &c)
	}
	if err != nil {
		d.Fatal(err)
	}
	c.LivenessProbe, c.ReadinessProbe = d.pod.Containers[0].LivenessProbe, d.pod.Containers[0].ReadinessProbe
	d.pod.Containers = []container{c}
}

// TestComposeFile checks the compose file with the image: its two nodes start with its command, settings, volumes and
// secret, work with the runs of each other, and one goes on when the other one gets SIGTERM.
func TestComposeFile(t *testing.T) {
	nightly.Only(t, "it starts two nodes from the image")
	t.Parallel()
	if os.Getenv(insideNetwork) == "" {
		imager(t)
		inNamespace(t)
		return
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all composed
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	d := newDeployment(t)
	database := d.database()
	d.secret = map[string]string{"cluster": strings.Repeat("ab", 32)}
	addresses := strings.NewReplacer(
		"postgres://pawl:${POSTGRES_PASSWORD:?}@database/pawl?sslmode=disable", database,
		"first:", "10.99.0.21:", "second:", "10.99.0.22:",
	)
	token := d.token(database)
	var pods []*pod
	for _, service := range []string{"first", "second"} {
		d.compose(all, service, addresses)
		p := d.start()
		d.await(p)
		pods = append(pods, p)
	}
	var l load
	for turn, key := range []string{"a", "b", "c", "d"} {
		d.ask(t.Context(), &l, token, turn, "POST", "/api/v1/runs", `{"workflow":"work","workflowId":"`+key+`"}`, key)
	}
	d.stop(pods[0])
	for turn, key := range []string{"a", "b", "c", "d"} {
		got := d.ask(t.Context(), &l, token, turn, "GET", "/api/v1/runs/"+key+"/outcome?wait=30s", "", "")
		if !strings.Contains(string(got), `"succeeded"`) {
			t.Errorf("the run %s: %s", key, got)
		}
	}
	l.check(t)
}
