// Command issuer is an issuer of OpenID Connect with a few people, for tests and to try out pawl server with one. It is
// that of zitadel/oidc, with well-known passwords, in memory, on this machine only.
//
//	go run . -user ada=admins,people -redirect http://127.0.0.1:7295/login/callback
//	pawl server --oidc-issuer http://127.0.0.1:9998 --oidc-client-id pawl --oidc-client-secret-file secret \
//	  --oidc-role admins=admin@* --public-url http://127.0.0.1:7295
//
// The secret of the client is "secret", and so is the password of everybody.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	client   = "pawl"
	password = "secret"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9998", "loopback address and port to listen on; port 0: any")
	redirect := flag.String("redirect", "", "address of the server to which browsers go back")
	lasts := flag.Duration("lasts", time.Hour, "how long tokens count")
	var users []string
	flag.Func("user", "somebody, as NAME=GROUP,GROUP; repeatable", func(s string) error {
		users = append(users, s)
		return nil
	})
	flag.Parse()
	if err := run(*listen, *redirect, *lasts, users); err != nil {
		fmt.Fprintln(os.Stderr, "issuer:", err)
		os.Exit(1)
	}
}

func run(listen, redirect string, lasts time.Duration, users []string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	people, groups, err := peopleOf(users)
	if err != nil {
		return err
	}
	storage.RegisterClients(storage.WebClient(client, password, redirect))
	s := &store{storage.NewStorage(people), groups, lasts}
	address := "http://" + l.Addr().String()
	handler := exampleop.SetupServer(address, s, slog.New(slog.DiscardHandler), false)
	fmt.Println(address)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}

// peopleOf returns those who can sign in, and their groups.
func peopleOf(users []string) (storage.UserStore, map[string][]string, error) {
	all, groups := map[string]*storage.User{}, map[string][]string{}
	for _, text := range users {
		name, in, _ := strings.Cut(text, "=")
		all[name] = &storage.User{
			ID: name, Username: name, Password: password, Email: name + "@example.com", EmailVerified: true,
		}
		if in != "" {
			groups[name] = strings.Split(in, ",")
		}
	}
	f, err := os.CreateTemp("", "people")
	if err != nil {
		return nil, nil, err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(json.NewEncoder(f).Encode(all), f.Close()); err != nil {
		return nil, nil, err
	}
	people, err := storage.StoreFromFile(f.Name())
	return people, groups, err
}

// store is the example's storage, with groups of people, and tokens that others can read.
type store struct {
	*storage.Storage
	groups map[string][]string
	lasts  time.Duration
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return &reader{c, s.lasts}, nil
}

func (s *store) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := s.Storage.CreateAccessToken(ctx, r)
	return id, time.Now().Add(s.lasts), err
}

// GetPrivateClaimsFromScopes implements op.Storage: the content of an access token.
func (s *store) GetPrivateClaimsFromScopes(
	ctx context.Context, user, client string, scopes []string,
) (map[string]any, error) {
	claims, err := s.Storage.GetPrivateClaimsFromScopes(ctx, user, client, scopes)
	if claims == nil {
		claims = map[string]any{}
	}
	claims["email"] = user + "@example.com"
	if g := s.groups[user]; g != nil {
		claims["groups"] = g
	}
	return claims, err
}

// SetUserinfoFromToken implements op.Storage: the issuer's answer to a request about a person.
func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	if g := s.groups[info.Subject]; g != nil {
		info.AppendClaims("groups", g)
	}
	return nil
}

// reader is a client whose access tokens are JSON Web Tokens.
type reader struct {
	op.Client
	lasts time.Duration
}

func (r *reader) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (r *reader) IDTokenLifetime() time.Duration { return r.lasts }
