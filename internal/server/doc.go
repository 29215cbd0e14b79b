// Package server is the HTTP API over an api.Service: runs, their events, operations, definitions, and the requests of
// a load balancer. The engine may be in this process or elsewhere; the server does not know.
//
// Its answers are described at /openapi.json, which is made from the handlers' types; openapi.json in this folder is
// that description as it was last reviewed, and a test compares them. Package internal/api/httpapi has the client.
//
// Nobody is asked for a token yet. So the server listens on this machine only, and refuses requests that a foreign web
// page makes through somebody's browser.
package server
