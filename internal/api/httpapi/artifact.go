package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var (
	_ api.ArtifactReader = (*Client)(nil)
	_ api.TaskArtifacts  = Files{}
)

func (c *Client) Artifacts(ctx context.Context, run string) (out api.Artifacts, err error) {
	path, err := runPath(run, "artifacts")
	if err != nil {
		return out, err
	}
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// Artifact implements api.ArtifactReader. Only the content's size and name of the artifact are set.
func (c *Client) Artifact(ctx context.Context, run, sha256 string) (io.ReadCloser, api.Artifact, error) {
	path, err := runPath(run, "artifacts", sha256)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	res, err := contentAt(ctx, c, path)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	return res.Body, api.Artifact{Size: res.ContentLength, SHA256: sha256}, nil
}

// contentAt requests content that is not JSON. The caller closes the body of the answer.
func contentAt(ctx context.Context, c *Client, path string) (*http.Response, error) {
	res, err := c.send(ctx, http.MethodGet, path, "application/octet-stream, application/problem+json", nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, problemIn(ctx, c, res)
	}
	return res, nil
}

// problemIn reads an answer that is a problem.
func problemIn(ctx context.Context, c *Client, res *http.Response) error {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return c.broken(ctx, res.Request.Method, true, err)
	}
	return readProblem(c.name, res, body)
}

// Files are the files of the attempts of a server's workers.
type Files struct{ Client *Client }

// TaskFiles is the body of a request that keeps files of an attempt.
type TaskFiles struct {
	Files []api.AttemptFile `json:"files" maxItems:"2000" nullable:"false"`
}

// MissingFiles is its answer.
type MissingFiles struct {
	Missing []string `json:"missing" doc:"The contents, by SHA-256, to send before the list can be kept."`
}

func (f Files) KeepFiles(ctx context.Context, task string, files []api.AttemptFile) ([]string, error) {
	var out MissingFiles
	_, err := f.Client.do(ctx, http.MethodPost, join("tasks", task, "artifacts"), TaskFiles{files}, &out)
	return out.Missing, err
}

func (f Files) SendContent(ctx context.Context, task, sha256 string, size int64, r io.Reader) error {
	req, err := newRequest(ctx, f.Client, http.MethodPut, join("tasks", task, "artifacts", sha256), io.NopCloser(r))
	if err != nil {
		return err
	}
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := exchange(f.Client, req)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return problemIn(ctx, f.Client, res)
	}
	return res.Body.Close()
}

func (f Files) Content(ctx context.Context, task, sha256 string) (io.ReadCloser, error) {
	res, err := contentAt(ctx, f.Client, join("tasks", task, "artifacts", sha256))
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
