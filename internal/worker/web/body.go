package web

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/regular"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// requestBody is a request's body. A redirect opens it again.
type requestBody struct {
	open        func() (io.ReadCloser, error)
	size        int64 // 0: the request has no body
	contentType string
}

// body returns the request's body: data, text, or a file that is read while it is sent. Each part of a file that is
// sent is a sign of life.
func (p *HTTPPayload) body(alive worker.Alive) (requestBody, *policy.Failure) {
	if p.File == "" {
		content := []byte(p.Body)
		contentType := "text/plain; charset=utf-8"
		if len(p.JSON) > 0 {
			content = bytes.Clone(p.JSON)
			contentType = "application/json"
		}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
		return requestBody{open, int64(len(content)), contentType}, nil
	}
	info, err := os.Stat(p.File)
	switch {
	case err != nil:
		return requestBody{}, noFile(p.File, underlying(err).Error())
	case !info.Mode().IsRegular():
		return requestBody{}, noFile(p.File, "it is not a regular file")
	}
	contentType := mime.TypeByExtension(filepath.Ext(p.File))
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	open := func() (io.ReadCloser, error) {
		f, err := regular.Open(p.File)
		if err != nil {
			return nil, err
		}
		return &sentFile{f, alive}, nil
	}
	return requestBody{open, info.Size(), contentType}, nil
}

func noFile(path, why string) *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindFailed, Type: "file",
		Message: "the file " + path + " cannot be sent: " + why,
	}
}

// attach sets the body of a request.
func (b requestBody) attach(req *http.Request) *policy.Failure {
	if b.size == 0 {
		return nil
	}
	content, err := b.open()
	if err != nil {
		return &policy.Failure{
			Kind: policy.KindFailed, Type: "file",
			Message: "the request's body cannot be read: " + underlying(err).Error(),
		}
	}
	req.Body, req.ContentLength, req.GetBody = content, b.size, b.open
	req.Header.Set("Content-Type", b.contentType)
	return nil
}

// sentFile is a file that is being sent. It has only the methods Read and Close, so that every byte goes through Read:
// a connection could otherwise copy the file in the kernel, and no sign of life would be seen.
type sentFile struct {
	file  *os.File
	alive worker.Alive
}

// Read reads the next part and reports a sign of life.
func (f *sentFile) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	if n > 0 {
		f.alive.Output()
	}
	return n, err
}

// Close closes the file.
func (f *sentFile) Close() error { return f.file.Close() }
