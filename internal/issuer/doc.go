// Package issuer identifies people and programs by the tokens of an OpenID Connect issuer: a server outside Pawl, at
// which they sign in.
//
//	config.go  what is said about the issuer, and the roles that its claims stand for
//	issuer.go  the issuer: found when it is needed first, its keys, tokens that callers show
//	claims.go  who bears a token, of what it claims
//	signin.go  a browser signs in: authorization code with PKCE
package issuer
