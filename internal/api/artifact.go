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
