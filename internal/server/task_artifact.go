package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// taskContent is the path of a content, for the worker of an attempt.
const taskContent = httpapi.Base + "/tasks/{task}/artifacts/{sha256}"

const filesText = `Contents are kept once, by their SHA-256. The answer names those that are missing: send each with
PUT, and the list again. When none is missing, the list is kept: say after that how the attempt has ended. After a
broken connection begin again with the list, and only what is still missing is sent.`

// octets describes a body that is not JSON.
func octets() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}
}

// OfContent is the input of requests about a content of an attempt. It is exported because the library skips embedded
// types that are not.
type OfContent struct {
	OfTask
	SHA256 string `path:"sha256" pattern:"^[0-9a-f]{64}$" doc:"The content's SHA-256, in hex."`
}

// addTaskArtifactRoutes adds the files of attempts that workers in other processes have.
func addTaskArtifactRoutes(s *Server, a huma.API) {
	op := under(api.RoleWorker, "POST", "/tasks/{task}/artifacts", "keepTaskArtifacts", "workers",
		"Keep files that the attempt of a task has made")
	op.Description = filesText
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfTask
		Body httpapi.TaskFiles
	},
	) (*answered[httpapi.MissingFiles], error) {
		out := httpapi.MissingFiles{Missing: []string{}}
		err := goesOn(ctx, s, in.Task)
		if err != nil {
			return body(out, err)
		}
		missing, err := s.cfg.Artifacts.Keep(ctx, in.Task, in.Body.Files)
		out.Missing = append(out.Missing, missing...)
		return body(out, err)
	})

	op = under(api.RoleWorker, "PUT", "/tasks/{task}/artifacts/{sha256}", "sendTaskArtifact", "workers",
		"Send the content of a file")
	op.RequestBody = &huma.RequestBody{Required: true, Content: octets()}
	op.Responses = map[string]*huma.Response{"204": {Description: "It is kept."}}
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfContent
		Length int64 `header:"Content-Length" required:"true" minimum:"0" doc:"The content's length, in bytes."`
	},
	) (*huma.StreamResponse, error) {
		if err := goesOn(ctx, s, in.Task); err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(h huma.Context) {
			err := s.cfg.Artifacts.Receive(h.Context(), in.SHA256, in.Length, h.BodyReader())
			answerStream(h, err)
		}}, nil
	})

	op = under(api.RoleWorker, "GET", "/tasks/{task}/artifacts/{sha256}", "getTaskArtifact", "workers",
		"Get the content of a file for the attempt of a task")
	op.Responses = map[string]*huma.Response{"200": {Description: "The content.", Content: octets()}}
	huma.Register(a, op, func(ctx context.Context, in *struct{ OfContent }) (*huma.StreamResponse, error) {
		if err := goesOn(ctx, s, in.Task); err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		content, err := s.cfg.Artifacts.Content(ctx, in.SHA256)
		if err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(h huma.Context) {
			defer content.Close()
			h.SetHeader("Content-Type", "application/octet-stream")
			h.SetStatus(http.StatusOK)
			if _, err := io.Copy(h.BodyWriter(), content); err != nil {
				panic(http.ErrAbortHandler) // otherwise a cut-off file would look whole
			}
		}}, nil
	})
}

// goesOn returns why an attempt may keep and take no files: it has ended, or is another worker's.
func goesOn(ctx context.Context, s *Server, task string) error {
	if s.cfg.Artifacts == nil {
		return errNoArtifacts
	}
	answer, err := s.reportOne(ctx, api.TaskReport{Task: task, Kind: api.TaskLook})
	if err == nil && answer.Stop != "" {
		err = &api.Error{Code: api.CodeStale, Message: "the attempt has ended: " + answer.Stop, Hint: "stop the work"}
	}
	return err
}

// answerStream answers a request whose body was read as a stream.
func answerStream(h huma.Context, err error) {
	if err == nil {
		h.SetStatus(http.StatusNoContent)
		return
	}
	p := httpapi.ProblemOf(err)
	h.SetHeader("Content-Type", httpapi.ProblemType)
	h.SetStatus(p.Status)
	_ = json.NewEncoder(h.BodyWriter()).Encode(p) // a caller that has gone needs no answer
}

// patientBody is a body that is read as it comes, with a deadline for each part.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *patientBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(bodyWithin)) // fails only without a connection, as in tests
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{}) // else it would end the request while it is carried out
	}
	return n, err
}
