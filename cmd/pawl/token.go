package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a tokenVerbs) tokenCommand() *cobra.Command {
	return noun("token", "Create, list and revoke access tokens",
		"Callers of pawl server show a token. Its role says what they may do: read, approve, operate, admin, or "+
			"worker, which may be for some queues only. Of each token only a hash is stored.",
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

// withAccess calls fn with the tokens and the audit log of the server, of the process that holds the database, or of
// the database.
func (a tokenVerbs) withAccess(ctx context.Context, fn func(keeper api.Access) error) error {
	namespace := a.namespace
	if a.server == "" {
		a.namespace = "" // the server's own database has the tokens of all
	}
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	if m.remote != nil {
		m.remote.In(namespace)
		return errors.Join(fn(m.remote), m.close())
	}
	keeper := access.NewKeeper(m.journal, apiNow, nil)
	var of api.Access = keeper
	if namespace != "" {
		of = keeper.Within(namespace)
	}
	return errors.Join(fn(of), keeper.Close(), m.close())
}

func (a tokenVerbs) tokenCreateCommand() *cobra.Command {
	var r api.TokenRequest
	var expires, out string
	cmd := &cobra.Command{
		Use: "create NAME --role ROLE", Short: "Make a token", Args: cobra.ExactArgs(1),
		Long: `Makes a token and prints it, once: only a hash of it is stored. NAME is who has it: histories of runs
and the audit log name it as the actor of what the token is used for. Roles:

  read     look at everything
  approve  also send events, such as the decision that a run waits for
  operate  also start the server's flows, send events, and operate on runs
  admin    everything, also flows of one's own, webhooks, tokens and the audit log
  worker   take tasks of its queues and report on them, and nothing else

The bearer works in one namespace of the server, default unless --namespace says another one, and sees nothing of the
others. --namespace '*' is for all of them: then each request says which.`,
		Example: "  pawl token create ci --role operate --expires-in 90d --out ci.token\n" +
			"  pawl token create mailer --role worker --queue mail",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[0]
			if expires != "" {
				d, err := parseDuration(expires)
				if err != nil || d <= 0 {
					return usage("--expires-in %q: write a time as 90d", expires)
				}
				r.ExpiresIn = api.Duration(d)
			}
			if a.namespace == api.AllNamespaces {
				r.Namespace, a.namespace = a.namespace, ""
			}
			return a.withAccess(cmd.Context(), func(keeper api.Access) error {
				t, err := keeper.CreateToken(cmd.Context(), r)
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(t)
				}
				if out != "" {
					return writeToken(out, t.Token)
				}
				fmt.Fprintf(a.Err, "pawl: keep this, it is not shown again; callers send Authorization: Bearer TOKEN\n")
				_, err = fmt.Fprintln(a.Out, t.Token)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&r.Role, "role", "", "read, approve, operate, admin or worker")
	cmd.Flags().StringArrayVar(&r.Queues, "queue", nil, "of a worker: a queue whose tasks it may take; repeatable "+
		"(default: all)")
	cmd.Flags().StringVar(&out, "out", "", "file for the token that only you can read (default: print it)")
	cmd.Flags().StringVar(&expires, "expires-in", "", "for how long it counts, such as 90d (default: until revoked)")
	return cmd
}

// writeToken writes a token into a new file that only its owner can read.
func writeToken(path, token string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w; the token was made and is lost: revoke it, and make another one", err)
	}
	_, err = fmt.Fprintln(f, token)
	return errors.Join(err, f.Close())
}

func (a tokenVerbs) tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withAccess(cmd.Context(), func(keeper api.Access) error {
				all, err := keeper.Tokens(cmd.Context())
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(all)
				}
				if len(all) == 0 {
					a.say("There are no tokens.")
				}
				for _, t := range all {
					text := fmt.Sprintf("%-20s %-8s %s  %s", screen.Clean(t.Name), t.Role, t.ID, t.Namespace)
					if len(t.Queues) > 0 {
						text += "  queues " + screen.Clean(strings.Join(t.Queues, ", "))
					}
					switch {
					case t.ExpiresAt == 0:
					case t.ExpiresAt <= apiNow():
						text += "  expired at " + t.ExpiresAt.String()
					default:
						text += "  until " + t.ExpiresAt.String()
					}
					a.say("%s", text)
				}
				return nil
			})
		},
	}
}

func (a tokenVerbs) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAccess(cmd.Context(), func(keeper api.Access) error {
				if err := keeper.RevokeToken(cmd.Context(), args[0]); err != nil {
					return err
				}
				a.say("the token %s is revoked", screen.Clean(args[0]))
				return nil
			})
		},
	}
}

func (a tokenVerbs) auditCommand() *cobra.Command {
	var q api.AuditQuery
	var since string
	cmd := &cobra.Command{
		Use: "audit", Short: "List who did what through pawl server", Args: cobra.NoArgs,
		Long: `Lists what callers did through pawl server, and requests that were refused, the newest first.
The actor of a call through the socket beside the database is local. Entries are kept for 90 days.`,
		Example: "  pawl audit --by ada --since 24h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				d, err := parseDuration(since)
				if err != nil {
					return usage("--since %q: write a time as 24h", since)
				}
				q.Since = api.At(clockNow().Add(-d))
			}
			return a.withAccess(cmd.Context(), func(keeper api.Access) error {
				page, err := keeper.Audit(cmd.Context(), q)
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(page)
				}
				for _, e := range page.Entries {
					a.say("%s  %-16s %-6s %s  %s  %s", e.At, screen.Clean(e.Actor), e.Method, strconv.Itoa(e.Status),
						screen.Clean(e.Path), e.Namespace)
				}
				if page.Next != "" {
					a.say("more: --cursor %s", page.Next)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&q.Actor, "by", "", "only of this actor")
	cmd.Flags().StringVar(&since, "since", "", "only of this time, such as 24h")
	cmd.Flags().IntVar(&q.Limit, "limit", 0, "how many at most (default 100)")
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", "go on where the page before ended")
	return cmd
}
