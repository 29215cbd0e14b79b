package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/api"
)

// slow is a service whose storage does not answer.
type slow struct{ api.Service }

func (slow) Runs(ctx context.Context, _ api.Query) (api.Page, error) {
	<-ctx.Done()
	return api.Page{}, ctx.Err()
}

// unreadable is a service whose storage cannot be read.
type unreadable struct{ api.Service }

func (unreadable) Runs(context.Context, api.Query) (api.Page, error) {
	return api.Page{}, &api.Error{Code: api.CodeStorage, Message: "the disk is gone"}
}

// TestReady checks that a server is ready if it can do its work, and otherwise says why it cannot.
func TestReady(t *testing.T) {
	for name, c := range map[string]struct {
		with func(*Config)
		act  func(*Server)
		says string
	}{
		"ready":  {},
		"stops":  {act: (*Server).Drain, says: "the server is stopping"},
		"silent": {with: func(c *Config) { c.Service = slow{c.Service} }, says: "no answer within 2s"},
		"broken": {with: func(c *Config) { c.Service = unreadable{c.Service} }, says: "the disk is gone"},
		"fenced": {
			with: func(c *Config) { c.Engine = func() error { return errors.New("another engine has partition 3") } },
			says: "another engine has partition 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var with []func(*Config)
				if c.with != nil {
					with = append(with, c.with)
				}
				b := newBed(t, with...)
				if c.act != nil {
					c.act(b.server)
				}
				status, header, body := b.plain("GET", "/readyz", "")
				if c.says == "" {
					if status != 200 {
						t.Errorf("%d %s", status, body)
					}
					return
				}
				b.problem(name, status, header, body, 503, api.CodeClosed, c.says)
				if status, _, body := b.plain("GET", "/livez", ""); status != 200 {
					t.Errorf("it does not live: %d %s", status, body)
				}
			})
		})
	}
}

// TestReadyWithNamespaces checks that a server is ready when all of its namespaces are.
func TestReadyWithNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		broken := false
		b.server.AddNamespace(newBed(t, func(c *Config) {
			c.Namespace = "blue"
			c.Engine = func() error {
				if broken {
					return errors.New("another engine has partition 3")
				}
				return nil
			}
		}).server)
		if status, _, body := b.plain("GET", "/readyz", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		broken = true
		status, header, body := b.plain("GET", "/readyz", "")
		b.problem("broken", status, header, body, 503, api.CodeClosed, "another engine has partition 3")
	})
}
