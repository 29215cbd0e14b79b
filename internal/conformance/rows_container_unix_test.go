//go:build unix

package conformance

import (
	"os"
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

func init() { rows["B15"] = containersStop }

// containersStop checks that the container of an attempt ends with it: the next one begins when it is gone, and not
// when its client is.
func containersStop(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STANDIN_DIR", t.TempDir())
	t.Setenv("PATH", pawlbin.Build(t, "./internal/worker/workertest/docker")+":"+os.Getenv("PATH"))
	limit := 4 * startOfAProcess(t)
	text := "pawl: 1\nname: row\nsteps:\n  - name: work\n" +
		"    timeout: {startToClose: " + duration.Format(limit) + "}\n    retry: fixed(2, 1ms)\n" +
		"    exec:\n      grace: 200ms\n      container: {image: alpine, volumes: [\"" + dir + ":/data\"]}\n" +
		"      env: {DIR: /data}\n      shell: |\n" +
		"        if [ $PAWL_ATTEMPT = 1 ]; then\n          echo $$ > $DIR/pid\n          trap '' TERM\n" +
		"          while :; do sleep 0.05; done\n        fi\n        ! kill -0 $(cat $DIR/pid)\n"
	doc, err := flow.Parse("row.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	performReal(t, &dialect.Conversion{Flow: doc}, "", nil, func(s *stage, _ *core.Run) {
		r := newNative(s).end()
		a := r.Steps[0].Attempts
		if r.Phase != api.RunSucceeded || len(a) != 2 || !a[0].Killed || a[0].Abandoned ||
			a[1].StartedAt < a[0].StoppedAt {
			t.Errorf("%s %+v", r.Phase, r.Steps[0])
		}
	})
}
