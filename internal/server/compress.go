package server

import (
	"compress/gzip"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// worthCompressing is how many bytes an answer has at least that is compressed for a client that takes that.
const worthCompressing = 2 << 10

// compress compresses long answers: those of the API, and the files of the page. Streams of events are not among them,
// since each event is sent at once. The length of an answer varies at random, so that it reveals nothing about a secret
// in it.
var compress = func() func(http.Handler) http.HandlerFunc {
	wrapped, err := gzhttp.NewWrapper(
		gzhttp.MinSize(worthCompressing), gzhttp.CompressionLevel(gzip.BestSpeed+1), gzhttp.EnableZstd(false),
		gzhttp.ContentTypes([]string{
			"application/json", "application/problem+json", "application/yaml", "text/html", "text/css",
			"text/javascript", "text/plain",
		}),
		gzhttp.RandomJitter(32, 0, false),
	)
	if err != nil {
		panic(err) // the options are constants
	}
	return wrapped
}()
