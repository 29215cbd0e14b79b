package access

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
)

// namespaceForm describes for people how the name of a namespace is written.
const namespaceForm = "a word of at most 40 lower-case letters, digits and -, which begins with a letter"

var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// IsNamespace reports whether a text can be the name of a namespace. [CheckNamespace] describes what is wrong.
func IsNamespace(name string) bool { return namespaceName.MatchString(name) }

// CheckNamespace refuses a text that cannot be the name of a namespace.
func CheckNamespace(name string) error {
	if IsNamespace(name) {
		return nil
	}
	return &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf("%q is no namespace: write %s", name, namespaceForm)}
}

// Within returns the tokens and the audit log of one namespace. Its holder sees and changes nothing of another
// namespace, and no token for all of them.
func (k *Keeper) Within(namespace string) api.Access { return within{k, namespace} }

type within struct {
	keeper    *Keeper
	namespace string
}

func (w within) concerns(t api.Token) bool { return t.Namespace == w.namespace }

func (w within) CreateToken(ctx context.Context, r api.TokenRequest) (api.Token, error) {
	if r.Namespace = cmp.Or(r.Namespace, w.namespace); r.Namespace != w.namespace {
		return api.Token{}, &api.Error{
			Code: api.CodeForbidden, Message: fmt.Sprintf("this makes tokens of the namespace %q only", w.namespace),
			Hint: "a token of another namespace is made by an admin of all namespaces, or on the server's machine",
		}
	}
	return w.keeper.CreateToken(ctx, r)
}

func (w within) Tokens(ctx context.Context) ([]api.Token, error) {
	all, err := w.keeper.Tokens(ctx)
	return slices.DeleteFunc(all, func(t api.Token) bool { return !w.concerns(t) }), err
}

func (w within) RevokeToken(ctx context.Context, name string) error {
	return w.keeper.revoke(ctx, name, w.concerns)
}

func (w within) Audit(ctx context.Context, q api.AuditQuery) (api.AuditPage, error) {
	return w.keeper.audit(ctx, q, func(e api.Audited) bool { return e.Namespace == w.namespace })
}
