// Package httpapi is api.Service over HTTP, seen from the caller's side: [Client] implements it. It also contains what
// it shares with the server: the paths, [Problem], which is an error on the wire, and the names in a stream of events.
//
// The server is package internal/server. A client in another language reads the description that the server offers at
// /openapi.json.
package httpapi
