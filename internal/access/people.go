package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Issuer knows the bearers of tokens that another system has made.
type Issuer interface {
	// Bearer returns who shows a text, and what that person or program may do. Errors: CodeNoToken, CodeForbidden,
	// CodeStalled.
	Bearer(ctx context.Context, text string) (api.Token, error)
}

// Trust makes tokens of an issuer valid beside the stored ones. Call it before the first request.
func (k *Keeper) Trust(issuer Issuer) { k.issuer = issuer }

// foreign is the prefix of the ids of people and programs that an issuer knows. Other ids are digits of hex.
const foreign = "sub-"

// ForeignID returns the id of a person or program that an issuer knows under another name.
func ForeignID(issuer, subject string) string {
	sum := sha256.Sum256([]byte(issuer + "\n" + subject))
	return foreign + hex.EncodeToString(sum[:8])
}

// mostSessions bounds how many browsers somebody is signed in with. The oldest session ends then.
const mostSessions = 10

// SignIn makes a session for the browser of a person whom an issuer has named. The answer has the text that it shows
// from now on: it is a token as others are, so it can be listed and revoked, and it counts on every server of the
// database.
func (k *Keeper) SignIn(ctx context.Context, who api.Token, lasts time.Duration) (api.Token, error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	tokens, err := k.load(ctx)
	if err != nil {
		return api.Token{}, err
	}
	var gone []journal.Document
	drop := func(id string) {
		gone = append(gone, journal.Document{Key: tokenPrefix + id})
		delete(tokens, id)
	}
	var own []stored
	for id, t := range tokens {
		switch {
		case !t.Session:
		case t.ExpiresAt <= k.now():
			drop(id)
		case t.Subject == who.ID:
			own = append(own, t)
		}
	}
	slices.SortFunc(own, func(a, b stored) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	for _, t := range own[:max(0, len(own)-mostSessions+1)] {
		drop(t.ID)
	}
	t := k.made(api.TokenRequest{
		Name: who.Name, Role: who.Role, Namespace: who.Namespace, ExpiresIn: api.Duration(lasts),
	})
	t.Session, t.Subject = true, who.ID
	return k.keep(ctx, tokens, t, gone...)
}

// CheckName refuses a name that would be taken for somebody else in the histories of runs.
func CheckName(name string) error {
	return check(api.TokenRequest{Name: name, Namespace: api.DefaultNamespace, Role: api.RoleRead})
}

// expired returns the error of a token whose time is over, or nil if it counts.
func (k *Keeper) expired(t api.Token) error {
	if t.ExpiresAt == 0 || k.now() < t.ExpiresAt {
		return nil
	}
	hint := "pawl token create makes a new one"
	if t.Session || strings.HasPrefix(t.ID, foreign) {
		hint = "sign in again"
	}
	return &api.Error{
		Code: api.CodeNoToken, Message: fmt.Sprintf("the token %q expired at %s", t.Name, t.ExpiresAt), Hint: hint,
	}
}
