package api

import (
	"context"
	"io"
)

// Artifact is a file that an attempt of an exec step has kept.
type Artifact struct {
	Step    string `json:"step"` // the step's key
	Attempt int    `json:"attempt"`
	Path    string `json:"path"` // relative, with slashes
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Link    string `json:"link,omitempty" doc:"Where a symbolic link leads, which is its content, too."`
}

// Artifacts are the files that a run has kept, by step, attempt and path.
type Artifacts struct {
	Artifacts []Artifact `json:"artifacts"`
}

// ArtifactReader reads the files that runs have kept. It is beside Service because they are in a folder of the machine
// that executed the attempt, or in a bucket.
type ArtifactReader interface {
	// Artifacts lists the files of a run. Errors: CodeNotFound.
	Artifacts(ctx context.Context, run string) (Artifacts, error)
	// Artifact opens the content of a file of a run by its SHA-256. Errors: CodeNotFound (no such run, or it has no
	// such file here).
	Artifact(ctx context.Context, run, sha256 string) (io.ReadCloser, Artifact, error)
}

// AttemptFile is a file that an attempt on another machine has made.
type AttemptFile struct {
	Path   string `json:"path" doc:"Path within the folder of the attempt, with slashes." minLength:"1"`
	Size   int64  `json:"size" doc:"Size in bytes." minimum:"0"`
	SHA256 string `json:"sha256" doc:"SHA-256 of the content, in hex." pattern:"^[0-9a-f]{64}$"`
	Mode   uint32 `json:"mode,omitempty" doc:"Its permissions; default: those of a new file."`
	Link   string `json:"link,omitempty" doc:"Of a symbolic link: where it leads, which is its content, too."`
}

// TaskArtifacts keeps files of attempts that workers in other processes have. task is the token of an attempt that goes
// on. Errors of all methods: CodeNotFound (nothing is kept there), CodeStale (it is another attempt's, or has ended).
type TaskArtifacts interface {
	// KeepFiles stores a list of files for the attempt. Where contents are not there yet, it returns their names and
	// keeps nothing: send them, and the list again. Errors: CodeInvalid.
	KeepFiles(ctx context.Context, task string, files []AttemptFile) (missing []string, err error)
	// SendContent keeps a content. Errors: CodeInvalid (its name does not match it, or it is too large).
	SendContent(ctx context.Context, task, sha256 string, size int64, r io.Reader) error
	// Content opens a content.
	Content(ctx context.Context, task, sha256 string) (io.ReadCloser, error)
}

// ArtifactKeeper keeps files, and reads them. It does not ask whether an attempt goes on. Errors as those of
// TaskArtifacts.
type ArtifactKeeper interface {
	ArtifactReader
	Keep(ctx context.Context, task string, files []AttemptFile) (missing []string, err error)
	Receive(ctx context.Context, sha256 string, size int64, r io.Reader) error
	Content(ctx context.Context, sha256 string) (io.ReadCloser, error)
}
