package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	documentVersion = 1 // version of the stored form

	tokenPrefix = "tokens/" // + the id of a token
	// mark is the beginning of each token, by which programs that look for leaked secrets recognise it.
	mark        = "pawl_"
	mostTokens  = 10_000
	longestName = 100
	// reserved is the actor of commands on the server's machine.
	reserved = "local"
)

// stored is the stored form of a token.
type stored struct {
	api.Token
	// Hash is the SHA-256 of its secret part: that part has 256 random bits, so nobody can guess it.
	Hash    string `json:"hash"`
	Subject string `json:"subject,omitempty"` // the id of who has signed in, if it is a session
}

// Keeper keeps the tokens and the audit log of a server. Its methods are safe for concurrent use.
type Keeper struct {
	documents journal.Documents
	now       func() api.Time
	logger    *slog.Logger
	log       log
	read      reader
	issuer    Issuer     // nil: only tokens that are kept count
	changing  sync.Mutex // held while a token is made or revoked
}

var _ api.Access = (*Keeper)(nil)

// NewKeeper returns the keeper of a database. The logger gets a line when tokens cannot be read; nil: nothing is
// logged.
func NewKeeper(documents journal.Documents, now func() api.Time, logger *slog.Logger) *Keeper {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{documents: documents, now: now, logger: logger}
	k.log.begin(k)
	return k
}

func (k *Keeper) CreateToken(ctx context.Context, r api.TokenRequest) (api.Token, error) {
	r.Namespace = cmp.Or(r.Namespace, api.DefaultNamespace)
	if err := check(r); err != nil {
		return api.Token{}, err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	tokens, err := k.load(ctx)
	if err != nil {
		return api.Token{}, err
	}
	for _, t := range tokens {
		if t.Name == r.Name && t.Namespace == r.Namespace && !t.Session {
			return api.Token{}, &api.Error{
				Code: api.CodeConflict, ID: r.Name, Message: "there is a token with this name",
				Hint: "revoke it, or choose another name",
			}
		}
	}
	if len(tokens) >= mostTokens {
		return api.Token{}, &api.Error{Code: api.CodeFull, Message: fmt.Sprintf("there are %d tokens", mostTokens)}
	}
	return k.keep(ctx, tokens, k.made(r))
}

// made returns a token that is not stored yet. Its text is in it.
func (k *Keeper) made(r api.TokenRequest) stored {
	random := make([]byte, 6+32)
	_, _ = rand.Read(random) // it never fails
	id, secret := hex.EncodeToString(random[:6]), base64.RawURLEncoding.EncodeToString(random[6:])
	t := stored{
		Token: api.Token{
			ID: id, Name: r.Name, Role: r.Role, Namespace: r.Namespace, Queues: r.Queues, CreatedAt: k.now(),
			Token: mark + id + "_" + secret,
		},
		Hash: hashOf(secret),
	}
	if r.ExpiresIn > 0 {
		t.ExpiresAt = api.At(t.CreatedAt.Std().Add(r.ExpiresIn.Std()))
	}
	return t
}

// keep stores a token beside all others, and removes some, with one commit. Its text is in the answer only.
func (k *Keeper) keep(
	ctx context.Context, tokens map[string]stored, t stored, gone ...journal.Document,
) (api.Token, error) {
	if len(tokens) >= mostTokens {
		return api.Token{}, &api.Error{Code: api.CodeFull, Message: fmt.Sprintf("there are %d tokens", mostTokens)}
	}
	shown := t.Token
	t.Token.Token = ""
	text, err := journal.EncodeDocument(documentVersion, t)
	if err != nil {
		return api.Token{}, err
	}
	put := append(gone, journal.Document{Key: tokenPrefix + t.ID, Value: text})
	if err := k.documents.PutDocuments(ctx, put...); err != nil {
		return api.Token{}, failed(err)
	}
	tokens[t.ID] = t
	k.changed(tokens)
	return shown, nil
}

// check refuses a request that makes no sense.
func check(r api.TokenRequest) error {
	invalid := func(format string, args ...any) error {
		return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	unprintable := func(c rune) bool { return !unicode.IsPrint(c) } // marks of direction among them
	switch {
	case r.Name == "" || len(r.Name) > longestName || strings.ContainsFunc(r.Name, unprintable) ||
		strings.TrimSpace(r.Name) != r.Name:
		return invalid("the name of a token has 1 to %d characters that can be printed, and no space at its ends",
			longestName)
	case strings.EqualFold(r.Name, reserved) || strings.ContainsAny(r.Name, "()"):
		return invalid("the name of a token is not %q and has no parentheses: in the histories of runs it would be "+
			"taken for somebody else", reserved)
	case r.Namespace != api.AllNamespaces && !IsNamespace(r.Namespace):
		return invalid("the namespace of a token is %s, or * for all", namespaceForm)
	case !slices.Contains(api.Roles(), r.Role):
		return invalid("there is no role %q; there are %s", r.Role, strings.Join(api.Roles(), ", "))
	case len(r.Queues) > 0 && r.Role != api.RoleWorker:
		return invalid("only a token with the role worker has queues")
	case r.ExpiresIn < 0:
		return invalid("a token expires after a time that is longer than zero")
	}
	return nil
}

func (k *Keeper) Tokens(ctx context.Context) ([]api.Token, error) {
	tokens, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]api.Token, 0, len(tokens))
	for _, t := range tokens {
		out = append(out, t.Token)
	}
	slices.SortFunc(out, func(a, b api.Token) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out, nil
}

func (k *Keeper) RevokeToken(ctx context.Context, name string) error {
	return k.revoke(ctx, name, func(api.Token) bool { return true })
}

// revoke makes those tokens worthless that concern the caller.
func (k *Keeper) revoke(ctx context.Context, name string, concerns func(api.Token) bool) error {
	k.changing.Lock()
	defer k.changing.Unlock()
	tokens, err := k.load(ctx)
	if err != nil {
		return err
	}
	var found []stored
	for id, t := range tokens {
		if (id == name || t.Name == name) && concerns(t.Token) {
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		return &api.Error{Code: api.CodeNotFound, ID: name, Message: "there is no such token"}
	}
	var gone []journal.Document
	for _, t := range found {
		if len(found) > 1 && (!t.Session || t.Subject != found[0].Subject) { // the sessions of somebody end together
			return &api.Error{
				Code: api.CodeConflict, ID: name, Message: "several tokens have this name",
				Hint: "give the id of the token instead, or the namespace",
			}
		}
		gone = append(gone, journal.Document{Key: tokenPrefix + t.ID})
		delete(tokens, t.ID)
	}
	if err := k.documents.PutDocuments(ctx, gone...); err != nil {
		return failed(err)
	}
	k.changed(tokens)
	return nil
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// failed converts the error of a storage that failed.
func failed(err error) error {
	if err == nil || api.CodeOf(err) != api.CodeInternal {
		return err
	}
	code := api.CodeStorage
	if journal.Stalls(err) {
		code = api.CodeStalled
	}
	return &api.Error{Code: code, Message: "the tokens or the audit log: " + err.Error(), Err: err}
}

// after returns the end of the range of keys that begin with a prefix, which ends with "/".
func after(prefix string) string { return strings.TrimSuffix(prefix, "/") + "0" }
