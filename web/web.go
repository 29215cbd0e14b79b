// Package web is the page that shows runs. Its sources are in app, and their built form, in dist, is embedded. It uses
// only the public HTTP API.
package web

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed dist
var dist embed.FS

// policyOf allows the page what it needs: its own scripts and styles, and requests to the server it came from. Widths
// of bars are set by its script through the style object, which needs no permission.
const policyOf = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Routes adds the page to a server's routes, by their patterns. The page asks for a token itself.
func Routes(handle func(pattern string, answer http.HandlerFunc)) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	page := func(w http.ResponseWriter, r *http.Request) { serve(w, r, files, "index.html") }
	handle("GET /{$}", page)
	for _, place := range []string{
		"/runs", "/run/{run}", "/compare",
		"/deadlines", "/flows", "/start", "/lab", "/schedules", "/webhooks", "/queues", "/tokens", "/audit",
	} {
		handle("GET "+place, page)
	}
	handle("GET /ui/{file}", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, files, r.PathValue("file"))
	})
}

// forever lets a browser keep a file whose name contains the hash of its content.
const forever = "public, max-age=31536000, immutable"

// serve answers with a file of the page. The browser asks for the page itself again each time, since another version of
// the server may have another one, and keeps all other files.
func serve(w http.ResponseWriter, r *http.Request, files fs.FS, name string) {
	if _, err := fs.Stat(files, name); err == nil && name != "index.html" {
		w.Header().Set("Cache-Control", forever)
	}
	w.Header().Set("Content-Security-Policy", policyOf)
	w.Header().Set("Referrer-Policy", "no-referrer")
	if _, err := fs.Stat(files, name+packed); err == nil {
		w.Header().Add("Vary", "Accept-Encoding")
		if takes(r, "br") {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
			name += packed
		}
	}
	http.ServeFileFS(w, r, files, name)
}

// packed ends the name of a file that is another one, compressed by brotli.
const packed = ".br"

// takes reports whether a client takes an encoding of an answer.
func takes(r *http.Request, encoding string) bool {
	for one := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		if strings.EqualFold(name, encoding) {
			return strings.TrimRight(quality, ".0") != "q="
		}
	}
	return false
}
