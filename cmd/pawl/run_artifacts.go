package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/part"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/database"
)

func (a runVerbs) runArtifactsCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use: "artifacts RUN [PATTERN]", Short: "List or download the files that a run has kept",
		Args: cobra.RangeArgs(1, 2),
		Long: `Lists the files that the steps of a run have kept: those of the last attempt of each step. A pattern
chooses some of them by STEP/PATH, such as 'build/dist/*.gz' or '**/*.xml'.

With --into they are written below a folder, as STEP/PATH.`,
		Example: "  pawl run artifacts @last\n  pawl run artifacts @last 'build/**' --into out",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && !doublestar.ValidatePattern(args[1]) {
				return usage("%q is not a pattern", args[1])
			}
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				return a.runArtifacts(ctx, svc, args, into)
			})
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "folder to write the files to, as STEP/PATH")
	a.completeFor(cmd, 1)
	return cmd
}

func (a runVerbs) runArtifacts(ctx context.Context, svc api.Service, args []string, into string) error {
	reader, err := artifactsOf(ctx, a.app, svc)
	if err != nil {
		return err
	}
	list, err := reader.Artifacts(ctx, args[0])
	if err != nil {
		return err
	}
	pattern := ""
	if len(args) == 2 {
		pattern = args[1]
	}
	list.Artifacts = lastOf(list.Artifacts, pattern)
	if into != "" {
		return a.download(ctx, reader, args[0], list.Artifacts, into)
	}
	if a.structured() {
		return a.print(list)
	}
	if len(list.Artifacts) == 0 {
		a.say("No artifact matches.")
		return nil
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tPATH\tSIZE\tSHA256")
	for _, f := range list.Artifacts {
		if f.Link != "" {
			f.Path += " -> " + f.Link
		}
		sum := f.SHA256[:min(16, len(f.SHA256))]
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", screen.Clean(f.Step), screen.Clean(f.Path), f.Size, sum)
	}
	return w.Flush()
}

// lastOf returns the files of the last attempt of each step that a pattern chooses; "": all of them.
func lastOf(files []api.Artifact, pattern string) []api.Artifact {
	last := map[string]int{}
	for _, f := range files {
		last[f.Step] = max(last[f.Step], f.Attempt)
	}
	out := []api.Artifact{}
	for _, f := range files {
		chosen := pattern == "" || doublestar.MatchUnvalidated(pattern, f.Step+"/"+f.Path)
		if f.Attempt == last[f.Step] && chosen {
			out = append(out, f)
		}
	}
	return out
}

// download writes files below a folder. The names of a step and of its files cannot lead out of the folder.
func (a runVerbs) download(
	ctx context.Context, reader api.ArtifactReader, run string, files []api.Artifact, into string,
) error {
	if err := os.MkdirAll(into, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		to := filepath.Join(strings.NewReplacer("/", "_", `\`, "_").Replace(f.Step), filepath.FromSlash(f.Path))
		if err := downloadOne(ctx, reader, run, f, root, to); err != nil {
			return fmt.Errorf("%s of step %q: %w", f.Path, f.Step, err)
		}
		a.say("%s", screen.Clean(filepath.Join(into, to)))
	}
	if len(files) == 0 {
		return errors.New("the run has no such artifact")
	}
	return nil
}

func downloadOne(
	ctx context.Context, reader api.ArtifactReader, run string, f api.Artifact, root *os.Root, to string,
) error {
	content, _, err := reader.Artifact(ctx, run, f.SHA256)
	if err != nil {
		return err
	}
	defer content.Close()
	if err := root.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	if f.Link != "" && filepath.IsLocal(filepath.Join(filepath.Dir(filepath.FromSlash(f.Path)), f.Link)) {
		_ = root.Remove(to) // one of an earlier download
		return root.Symlink(f.Link, to)
	}
	out, err := root.Create(to)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), content)
	if err = errors.Join(err, out.Close()); err == nil && hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		err = errors.New("its content is not the one that was kept")
	}
	return err
}

// artifactStore returns where the steps of a database keep files. Nil: nowhere.
func artifactStore(ctx context.Context, a *app, p database.Place) (*artifact.Store, error) {
	if strings.HasPrefix(a.artifacts, "s3:") {
		bucket, err := part.OpenBucket(ctx, a.artifacts, p.Namespace)
		if err != nil {
			return nil, usage("--artifacts: %w", err)
		}
		store := artifact.New(bucket, artifact.Limits{})
		if err := store.Claim(ctx, p.Identity()); err != nil {
			return nil, usage("--artifacts: %w", err)
		}
		return store, nil
	}
	folder := a.artifacts
	switch {
	case strings.Contains(folder, "://"):
		return nil, usage("--artifacts is a folder, or s3://BUCKET/PREFIX, not %s", folder)
	case folder == "":
		folder = p.ArtifactDir()
	case p.Namespace != "":
		folder += "-" + p.Namespace
	}
	if folder == "" {
		return nil, nil
	}
	return artifact.New(artifact.NewFolder(folder), artifact.Limits{}), nil
}

// artifactsOf returns what reads the files that runs of a service have kept.
func artifactsOf(ctx context.Context, a *app, svc api.Service) (api.ArtifactReader, error) {
	if a.server != "" {
		return a.connect()
	}
	p, err := a.where()
	if err != nil {
		return nil, err
	}
	store, err := artifactStore(ctx, a, p)
	return daemon.Artifacts{Store: store, Service: svc}, err
}
