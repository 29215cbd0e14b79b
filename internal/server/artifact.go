package server

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// addArtifactRoutes adds the files that steps have kept.
func addArtifactRoutes(s *Server, a huma.API) {
	huma.Register(a, under(api.RoleRead, "GET", "/runs/{run}/artifacts", "listArtifacts", "runs",
		"List the files that the steps of a run have kept"),
		func(ctx context.Context, in *struct{ OfRun }) (*answered[api.Artifacts], error) {
			if s.cfg.Artifacts == nil {
				return body(api.Artifacts{}, errNoArtifacts)
			}
			return body(s.cfg.Artifacts.Artifacts(ctx, in.Run))
		})

	op := under(api.RoleRead, "GET", "/runs/{run}/artifacts/{sha256}", "getArtifact", "runs",
		"Get the content of a file that a step of a run has kept")
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The content.", Content: octets(),
	}}
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfRun
		SHA256 string `path:"sha256" pattern:"^[0-9a-f]{64}$" doc:"The content's SHA-256, as the list has it."`
	},
	) (*huma.StreamResponse, error) {
		if s.cfg.Artifacts == nil {
			return nil, httpapi.ProblemOf(errNoArtifacts)
		}
		content, file, err := s.cfg.Artifacts.Artifact(ctx, in.Run, in.SHA256)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(h huma.Context) { sendArtifact(h, content, file) }}, nil
	})
}

var errNoArtifacts = &api.Error{Code: api.CodeNotFound, Message: "this server keeps no artifacts"}

// sendArtifact sends a file. Steps made it, so no browser shows it as a page of this server.
func sendArtifact(h huma.Context, content io.ReadCloser, file api.Artifact) {
	defer content.Close()
	h.SetHeader("Content-Type", "application/octet-stream")
	h.SetHeader("Content-Length", strconv.FormatInt(file.Size, 10))
	h.SetHeader("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{
		"filename": path.Base(file.Path),
	}))
	h.SetHeader("X-Content-Type-Options", "nosniff")
	h.SetHeader("ETag", fmt.Sprintf("%q", file.SHA256))
	h.SetStatus(http.StatusOK)
	_, _ = io.Copy(h.BodyWriter(), content) // the caller sees that it is shorter than its length
}
