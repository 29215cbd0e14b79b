package web

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// requestBody is a request's body. It can be opened again, for a redirect.
type requestBody struct {
	open        func() (io.ReadCloser, error)
	size        int64 // 0: the request has no body
	contentType string
}

// body finds the request's body: data, text, or a file that is read while it is sent. The parts of a file that are sent
// are signs of life.
func (p *HTTPPayload) body(alive worker.Alive) (requestBody, *policy.Failure) {
	if p.File == "" {
		content, contentType := []byte(p.Body), "text/plain; charset=utf-8"
		if len(p.JSON) > 0 {
			content, contentType = bytes.Clone(p.JSON), "application/json"
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
		f, err := os.Open(p.File)
		if err != nil {
			return nil, err
		}
		return &sentFile{f, alive}, nil
	}
	return requestBody{open, info.Size(), contentType}, nil
}

func noFile(path, why string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: "file", Message: "the file " + path + " cannot be sent: " + why}
}

// attach gives the body to a request.
func (b requestBody) attach(req *http.Request) *policy.Failure {
	if b.size == 0 {
		return nil
	}
	content, err := b.open()
	if err != nil {
		return &policy.Failure{Kind: policy.KindFailed, Type: "file", Message: "the request's body cannot be read: " + underlying(err).Error()}
	}
	req.Body, req.ContentLength, req.GetBody = content, b.size, b.open
	req.Header.Set("Content-Type", b.contentType)
	return nil
}

// sentFile is a file on its way out. It shows nothing but Read: what a connection took from the file itself would go
// unnoticed.
type sentFile struct {
	file  *os.File
	alive worker.Alive
}

// Read reads what is sent next.
func (f *sentFile) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	if n > 0 {
		f.alive.Output()
	}
	return n, err
}

// Close closes the file.
func (f *sentFile) Close() error { return f.file.Close() }
