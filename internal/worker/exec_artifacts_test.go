//go:build unix

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// TestArtifacts checks that the end of an attempt says what it has kept, that the next step has it before its process
// starts, and that an attempt whose files cannot be kept has not succeeded.
func TestArtifacts(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	cfg := ExecConfig{Artifacts: artifact.New(artifact.NewFolder(kept), artifact.Limits{}), LogDir: t.TempDir()}
	build := shellTask(t, "mkdir -p dist; echo made > dist/a", map[string]any{
		"dir": t.TempDir(), "artifacts": []string{"dist/*"},
	})
	res := begin(t, cfg, build).wait(t)
	if res.Failure != nil {
		t.Fatal(res.Failure)
	}
	files := workertest.Field(t, res.Output, "artifacts")
	if !strings.HasPrefix(files, `[{"path":"dist/a","size":5,"sha256":"`) {
		t.Errorf("kept are %s", files)
	}
	take := func(value string) Result {
		text := `{"shell": "cat dist/a", "dir": "` + t.TempDir() + `", "take": [` + value + `]}`
		return begin(t, cfg, workertest.Task("exec", text)).wait(t)
	}
	for _, value := range []string{files, "[" + files + ", null]", files + ", null"} {
		if res := take(value); res.Failure != nil || workertest.Field(t, res.Output, "stdout") != `"made\n"` {
			t.Errorf("taken by %s: %v, %s", value, res.Failure, res.Output)
		}
	}
	workertest.WantFailure(t, take(`"x"`).Failure, policy.KindFailed, "artifacts")
	workertest.WantFailure(t, take(strings.Replace(files, `"sha256":"`, `"sha256":"0`, 1)).Failure, policy.KindFailed,
		"artifacts")
	gone := strings.Replace(files, `"sha256":"`, `"sha256":"`+strings.Repeat("0", 64)+`", "x": "`, 1)
	workertest.WantFailure(t, take(gone).Failure, policy.KindFailed, "artifacts")

	if err := os.RemoveAll(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, nil, 0o600); err != nil { // where the folder should be
		t.Fatal(err)
	}
	res = begin(t, cfg, build).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindError, "artifacts")
	res = begin(t, ExecConfig{}, build).wait(t)
	workertest.WantFailure(t, res.Failure, policy.KindFailed, "artifacts")
	failing := shellTask(t, "exit 3", map[string]any{"dir": t.TempDir(), "artifacts": []string{"none"}})
	workertest.WantFailure(t, begin(t, cfg, failing).wait(t).Failure, policy.KindError, "exit")
}
