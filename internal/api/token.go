package api

import "context"

// The roles of tokens. Each determines what its bearer may do.
const (
	RoleRead    = "read"    // look at everything
	RoleApprove = "approve" // also send events, to runs that wait for a person
	RoleOperate = "operate" // also start what the server has, send events, and operate on runs
	RoleAdmin   = "admin"   // everything, also flows of one's own, webhooks, tokens and the audit log
	RoleWorker  = "worker"  // take tasks of its queues and report on them, and nothing else
)

// Roles returns all roles.
func Roles() []string { return []string{RoleRead, RoleApprove, RoleOperate, RoleAdmin, RoleWorker} }

// Names of namespaces with a meaning of their own. A namespace is a database that a server has beside its first one.
const (
	DefaultNamespace = "default" // the server's first database
	AllNamespaces    = "*"       // means that a token works in each of them
)

// Token is what a caller from the network sends to be admitted. Only its hash is stored.
type Token struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"` // name of its holder, who is the actor of all that its bearer does
	Role      string   `json:"role"`
	Namespace string   `json:"namespace"`        // the namespace whose runs its bearer sees; *: all of them
	Queues    []string `json:"queues,omitempty"` // the queues whose tasks a worker may take; empty: all
	CreatedAt Time     `json:"createdAt"`
	ExpiresAt Time     `json:"expiresAt,omitzero"` // none: never
	// Session: it belongs to a browser in which somebody has signed in.
	Session bool `json:"session,omitempty" doc:"Set if it belongs to a browser with which somebody has signed in."`
	// Token is the text to show. It is there only in the answer to the request that made the token.
	Token string `json:"token,omitempty"`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name      string   `json:"name"`
	Role      string   `json:"role"`
	Namespace string   `json:"namespace,omitempty"` // or * for all; default: that of the request
	Queues    []string `json:"queues,omitempty"`
	ExpiresIn Duration `json:"expiresIn,omitzero"` // the time from now on; none: never
}

// Audited is one entry of the audit log: what somebody did through the server, or tried to do without the right to.
type Audited struct {
	ID    string `json:"id"`
	At    Time   `json:"at"`
	Actor string `json:"actor"`           // the name of the token; local: a command on the server's machine
	Token string `json:"token,omitempty"` // its id
	// Namespace is the one that the request was for.
	Namespace string `json:"namespace,omitempty"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Status    int    `json:"status"`            // the status of the answer
	Request   string `json:"request,omitempty"` // the request's id, as the log and the answer have it
	From      string `json:"from,omitempty"`    // the caller's address
	// Unchecked: the storage could not be reached, and the token was trusted as it was read some minutes before at
	// most.
	Unchecked bool `json:"unchecked,omitempty" doc:"The token was known, and could not be looked up at that moment."`
}

// ShownToken is a token that a caller has shown, and that counts.
type ShownToken struct {
	Token Token
	// Unchecked: as in Audited.
	Unchecked bool
}

// AuditQuery selects entries of the audit log.
type AuditQuery struct {
	Actor  string `json:"actor,omitempty"`
	Since  Time   `json:"since,omitzero"`
	Limit  int    `json:"limit,omitempty"` // default 100, at most 1000
	Cursor string `json:"cursor,omitempty"`
}

// AuditPage is one page of the audit log, the newest entry first.
type AuditPage struct {
	Entries []Audited `json:"entries"`
	Next    string    `json:"next,omitempty"` // cursor of the next page; empty: this is the last one
}

// Access keeps tokens and the audit log of a server. The server implements it, and so does the client of a server. All
// methods are safe for concurrent use and return an *[Error].
type Access interface {
	// CreateToken makes a token. Its text is in the answer, and never again. Errors: CodeInvalid, CodeConflict (there
	// is one with this name).
	CreateToken(ctx context.Context, r TokenRequest) (Token, error)
	// Tokens lists all tokens, by name, also those that have expired.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken makes a token, given by its name or id, worthless. Errors: CodeNotFound.
	RevokeToken(ctx context.Context, name string) error
	// Audit lists entries of the audit log, the newest first. Errors: CodeInvalid.
	Audit(ctx context.Context, q AuditQuery) (AuditPage, error)
}
