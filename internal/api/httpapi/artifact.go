package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
)

var _ api.ArtifactReader = (*Client)(nil)

// Artifacts implements api.ArtifactReader.
func (c *Client) Artifacts(ctx context.Context, run string) (out api.Artifacts, err error) {
	path, err := runPath(run, "artifacts")
	if err != nil {
		return out, err
	}
	_, err = c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// Artifact implements api.ArtifactReader. Of the artifact it knows the content's size and name alone.
func (c *Client) Artifact(ctx context.Context, run, sha256 string) (io.ReadCloser, api.Artifact, error) {
	path, err := runPath(run, "artifacts", sha256)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	res, err := c.send(ctx, http.MethodGet, path, "application/octet-stream, application/problem+json", nil)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, api.Artifact{}, c.broken(ctx, http.MethodGet, true, err)
		}
		return nil, api.Artifact{}, readProblem(c.name, res, body)
	}
	return res.Body, api.Artifact{Size: res.ContentLength, SHA256: sha256}, nil
}
