package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// manifest is what Kubernetes reads of the deployment in docs/operations.
type manifest struct {
	Spec struct {
		Replicas int
		Template struct{ Spec podSpec }
	}
}

type podSpec struct {
	Grace           int `yaml:"terminationGracePeriodSeconds"`
	SecurityContext struct {
		RunAsUser int `yaml:"runAsUser"`
	} `yaml:"securityContext"`
	Containers []container
}

type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
			SecretKeyRef struct{ Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	VolumeMounts   []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet        struct{ Path string } `yaml:"httpGet"`
	PeriodSeconds  int                   `yaml:"periodSeconds"`
	TimeoutSeconds int                   `yaml:"timeoutSeconds"`
}

// deployment runs pods of the manifest: the root file system of the image, the command, the user, the settings, the
// probes and the signals that Kubernetes gives them. Each has a network namespace with a cable to a bridge.
type deployment struct {
	*network
	pod      podSpec
	folder   string
	image    string            // the tool that makes the image
	secret   map[string]string // the keys of the secret
	entry    []string          // the entry point of the image
	env      []string          // and its variables
	started  int
	mu       sync.Mutex
	pods     []*pod
	restless atomic.Int64 // probes of liveness that failed
}

// pod is one pod.
type pod struct {
	cmd     *exec.Cmd
	address string
	log     *tale
	ready   atomic.Bool
	ending  chan struct{} // closed when it is asked to end
	over    chan struct{} // closed when its process has ended
}

// imager builds the program that writes and starts images. Tests call it before they enter a namespace, too: inside, Go
// reaches no server that has its modules.
func imager(t *testing.T) string {
	t.Helper()
	return filepath.Join(pawlbin.BuildIn(t, "tools/image", "."), "image")
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{network: &network{T: t}, folder: t.TempDir(), secret: map[string]string{}}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.NewDecoder(strings.NewReader(string(text))).Decode(&m); err != nil {
		t.Fatal(err)
	}
	d.pod = m.Spec.Template.Spec
	if m.Spec.Replicas != 3 || len(d.pod.Containers) != 1 || d.pod.Grace == 0 || d.pod.SecurityContext.RunAsUser == 0 {
		t.Fatalf("the manifest is read as %+v", m)
	}
	d.image = imager(t)
	if err := os.Chmod(d.folder, 0o755); err != nil { // the image's user has to get through
		t.Fatal(err)
	}
	for dir := d.folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.ip("link set lo up")
	bridge := exec.CommandContext(t.Context(), "ip", "link", "add", "cluster", "type", "bridge")
	if out, err := bridge.CombinedOutput(); err != nil {
		t.Skipf("%s: %v: %s", noNetwork, err, out)
	}
	d.ip("address add " + atBridge + "/24 dev cluster")
	d.ip("link set cluster up")
	return d
}

// database starts a PostgreSQL server that pods reach, and returns its address.
func (d *deployment) database() string {
	d.Helper()
	server := pgtest.StartServer(d.T, "-c", "listen_addresses=*")
	server.Admit(networkOfNodes)
	u, err := url.Parse(server.DSN())
	if err != nil {
		d.Fatal(err)
	}
	u.Host = atBridge + ":" + u.Port()
	return u.String()
}

// token makes a token of an admin with the image, in a database.
func (d *deployment) token(database string) string {
	d.Helper()
	create := d.command(d.root("token"), 0, []string{"PAWL_DATABASE=" + database},
		"token", "create", "ada", "--role", "admin")
	text, err := create.Output()
	if err != nil {
		d.Fatalf("%v: %s", err, text)
	}
	return strings.TrimSpace(string(text))
}

// root makes the root file system of a pod, with its volumes.
func (d *deployment) root(name string) string {
	d.Helper()
	root := filepath.Join(d.folder, name)
	bin := filepath.Join(pawlbin.Build(d.T, "./cmd/pawl"), "pawl")
	const certificates = "/etc/ssl/certs/ca-certificates.crt"
	d.run(d.image, "-file", filepath.Join("..", "..", "docs", "operations", "Dockerfile"), "-folder", root,
		"-from", "/pawl="+bin, "-from", certificates+"="+certificates)
	var config struct{ Entrypoint, Env []string }
	text, err := os.ReadFile(root + ".json")
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		d.Fatal(err)
	}
	d.entry, d.env = config.Entrypoint, config.Env
	for _, v := range d.pod.Containers[0].VolumeMounts {
		at := filepath.Join(root, v.MountPath)
		if err := os.MkdirAll(at, 0o755); err != nil {
			d.Fatal(err)
		}
		switch v.Name {
		case "flows":
			write(d.T, at, "work.yaml", "pawl: 1\nname: work\nsteps:\n  - {name: nap, sleep: 1s}\n")
		case "secret":
			for key, value := range d.secret {
				write(d.T, at, key, value)
			}
		}
	}
	return root
}

// command returns a command of the image, in the network of a process; 0: in that of the test.
func (d *deployment) command(root string, network int, env []string, args ...string) *exec.Cmd {
	d.Helper()
	chroot, err := exec.LookPath("chroot") // the image has no PATH to find it
	if err != nil {
		d.Fatal(err)
	}
	line := slices.Concat([]string{
		chroot, fmt.Sprintf("--userspec=%d:%d", d.pod.SecurityContext.RunAsUser, d.pod.SecurityContext.RunAsUser), root,
	}, d.entry, args)
	if network != 0 {
		line = append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", network)}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(slices.Clone(d.env), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts a pod.
func (d *deployment) start() *pod {
	d.Helper()
	d.started++
	number := d.started
	ip := fmt.Sprint("10.99.0.", 20+number)
	holder := exec.CommandContext(d.Context(), "sleep", "infinity") // it keeps the namespace
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = holder.Wait() }) // the context has killed it
	in := fmt.Sprintf("--net=/proc/%d/ns/net", holder.Process.Pid)
	d.ip(fmt.Sprintf("link add pod%d type veth peer name eth0 netns %d", number, holder.Process.Pid))
	d.ip(fmt.Sprintf("link set pod%d master cluster up", number))
	for _, args := range []string{"link set lo up", "address add " + ip + "/24 dev eth0", "link set eth0 up"} {
		d.run("nsenter", append([]string{in, "ip"}, strings.Fields(args)...)...)
	}
	c := d.pod.Containers[0]
	var env []string
	values := map[string]string{}
	for _, e := range c.Env {
		v := e.Value
		switch {
		case e.ValueFrom.FieldRef.FieldPath == "status.podIP":
			v = ip
		case e.ValueFrom.SecretKeyRef.Key != "":
			v = d.secret[e.ValueFrom.SecretKeyRef.Key]
		}
		for name, known := range values {
			v = strings.ReplaceAll(v, "$("+name+")", known)
		}
		values[e.Name] = v
		env = append(env, e.Name+"="+v)
	}
	p := &pod{
		address: fmt.Sprintf("http://%s:%d", ip, c.Ports[0].ContainerPort),
		ending:  make(chan struct{}), over: make(chan struct{}),
		log: &tale{more: make(chan struct{})},
	}
	p.cmd = d.command(d.root(fmt.Sprint("pod", number)), holder.Process.Pid, env, c.Args...)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		d.Fatal(err)
	}
	go func() {
		defer close(p.over)
		_ = p.cmd.Wait() // its status is looked at by whoever ends it
	}()
	d.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.over
	})
	d.mu.Lock()
	d.pods = append(d.pods, p)
	d.mu.Unlock()
	d.probe(p, c.ReadinessProbe, p.over, p.ready.Store)
	d.probe(p, c.LivenessProbe, p.ending, func(ok bool) {
		if !ok {
			d.restless.Add(1)
		}
	})
	return p
}

// probe asks a pod as Kubernetes does, until it has ended or done is closed. A pod that is to end is not asked whether
// it lives.
func (d *deployment) probe(p *pod, how probe, done chan struct{}, tell func(bool)) {
	client := &http.Client{
		Timeout:   time.Duration(how.TimeoutSeconds) * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	go func() {
		every := time.NewTicker(time.Duration(how.PeriodSeconds) * time.Second)
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-done:
				return
			case <-p.over:
				return
			}
			answer, err := client.Get(p.address + how.HTTPGet.Path)
			if err == nil {
				_ = answer.Body.Close() // only the status matters
			}
			select {
			case <-done: // it was asked at that moment
			case <-p.over:
			default:
				tell(err == nil && answer.StatusCode == http.StatusOK)
			}
		}
	}()
}

// await waits until so many pods are ready.
func (d *deployment) await(p *pod) {
	d.Helper()
	for end := time.Now().Add(patience); !p.ready.Load(); {
		select {
		case <-p.over:
			d.Fatalf("the pod %s has ended: %s", p.address, p.log.text.String())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(end) {
			d.Fatalf("the pod %s is not ready: %s", p.address, p.log.text.String())
		}
	}
}

// stop ends a pod as Kubernetes does. It leaves the service when its probe fails, and not before.
func (d *deployment) stop(p *pod) {
	d.Helper()
	began := time.Now()
	close(p.ending)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.Fatal(err)
	}
	select {
	case <-p.over:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			d.Errorf("the pod ends with %d: %s", code, p.log.text.String())
		}
		d.Logf("a pod has stopped after %s", time.Since(began).Round(time.Millisecond))
	case <-time.After(time.Duration(d.pod.Grace) * time.Second):
		d.Errorf("the pod does not end within its grace: %s", p.log.text.String())
	}
	p.ready.Store(false)
}

// next returns the address of a pod that is ready, as a service does.
func (d *deployment) next(turn int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.pods {
		if p := d.pods[(turn+i)%len(d.pods)]; p.ready.Load() {
			return p.address
		}
	}
	return ""
}

// load is what callers of the service have seen.
type load struct {
	asked, again atomic.Int64
	lost         sync.Map // the reasons, by the request
	runs         sync.Map // the runs that were started
}

// check checks that no request was lost.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.lost.Range(func(what, why any) bool {
		t.Errorf("lost: %v: %v", what, why)
		return true
	})
}

// ask makes a request until it is answered, as the clients of Pawl do: a start has a key, and 503 is asked again.
func (d *deployment) ask(ctx context.Context, l *load, token string, turn int, method, path, body, key string) []byte {
	why := ""
	for range 20 {
		r, err := http.NewRequestWithContext(ctx, method, d.next(turn)+path, strings.NewReader(body))
		if err != nil {
			why = err.Error()
			break
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		l.asked.Add(1)
		answer, err := http.DefaultClient.Do(r)
		if err != nil { // the connection was refused or cut: nobody tells a caller to send this again
			why = err.Error()
			break
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // all of it was read
		switch {
		case err == nil && answer.StatusCode < 300:
			return text
		case answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "":
			why = fmt.Sprint(answer.Status, string(text))
		}
		if why != "" {
			break
		}
		l.again.Add(1)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
		turn++
	}
	if ctx.Err() == nil {
		l.lost.Store(method+" "+path+" "+key, why)
	}
	return nil
}

// TestRollingDeployOfTheImage checks the image, the settings, the probes and the signals of the manifest: three pods of
// a cluster start, are ready, and are replaced one by one while callers start runs and read them. No request is lost,
// and neither is a run.
func TestRollingDeployOfTheImage(t *testing.T) {
	nightly.Only(t, "it replaces all pods of a deployment")
	t.Parallel()
	if os.Getenv(insideNetwork) == "" {
		imager(t)
		inNamespace(t)
		return
	}
	d := newDeployment(t)
	database := d.database()
	d.secret = map[string]string{"database": database, "cluster.secret": strings.Repeat("ab", 32)}
	token := d.token(database)
	var pods []*pod
	for range 3 {
		p := d.start()
		d.await(p)
		pods = append(pods, p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var l load
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d", caller, i)
				body := `{"workflow":"work","workflowId":"` + key + `"}`
				if d.ask(ctx, &l, token, i+caller, "POST", "/api/v1/runs", body, key) != nil {
					l.runs.Store(key, true)
				}
				d.ask(ctx, &l, token, i+caller, "GET", "/api/v1/runs?limit=10", "", "")
			}
		})
	}
	for _, old := range pods { // maxSurge 1, maxUnavailable 0
		d.await(d.start())
		d.stop(old)
	}
	cancel()
	callers.Wait()
	l.check(t)
	began := 0
	l.runs.Range(func(key, _ any) bool {
		began++
		path := fmt.Sprintf("/api/v1/runs/%v/outcome?wait=30s", key)
		text := d.ask(t.Context(), &l, token, began, "GET", path, "", "")
		if !strings.Contains(string(text), `"succeeded"`) {
			t.Errorf("the run %v: %s", key, text)
		}
		return true
	})
	t.Logf("%d requests, %d of them sent again after a 503, %d runs", l.asked.Load(), l.again.Load(), began)
	if began < 20 || d.restless.Load() > 0 {
		t.Errorf("%d runs began, and %d probes of liveness failed", began, d.restless.Load())
	}
}
