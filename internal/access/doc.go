// Package access stores who may use a server, and what they did: tokens and the audit log, as documents beside the
// runs.
//
//	token.go   tokens: made, shown, revoked; only hashes are stored
//	people.go  people whom an issuer knows: sessions of their browsers, and tokens that it has made
//	within.go  what the bearers of tokens of one namespace see of both
//	audit.go   the audit log: written in groups, read by page, removed when it is old
package access
