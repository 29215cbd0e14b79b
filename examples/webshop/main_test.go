package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a request to the shop's handlers.
func ask(s *shop, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// TestOrder checks that an order that is sent twice is one order, and its workflow goes on after a crash.
func TestOrder(t *testing.T) {
	pawltest.RunWith(t, pawl.Config{}, func(t *testing.T, e *pawltest.Env) {
		s, err := openShop(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.db.Close()
		if err := e.Register(s.fulfil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			code, text := ask(s, "POST", "/orders", `{"id": "order-1", "item": "book"}`)
			if code != http.StatusAccepted {
				t.Fatal(code, text)
			}
		}
		if _, err := s.fulfil.Find(t.Context(), e, "order-1"); err == nil {
			t.Error("there is a run before the outbox was relayed")
		}
		if err := s.box.RelayOnce(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		e.Skip(100 * time.Millisecond)
		if _, text := ask(s, "GET", "/orders/order-1", ""); text != `{"status":"charged"}` {
			t.Error(text)
		}
		e.Crash(s.fulfil)
		e.Skip(time.Second)
		if _, text := ask(s, "GET", "/orders/order-1", ""); text != `{"status":"sent"}` {
			t.Error(text)
		}
		var payments int
		if err := s.db.QueryRow(`SELECT count(*) FROM payments`).Scan(&payments); err != nil || payments != 1 {
			t.Errorf("%d payments, %v", payments, err)
		}
	})
}

func TestBadRequests(t *testing.T) {
	s, err := openShop(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.db.Close()
	for _, body := range []string{"", "{", `{"item": "book"}`} {
		if code, text := ask(s, "POST", "/orders", body); code != http.StatusBadRequest {
			t.Error(body, code, text)
		}
	}
	if code, _ := ask(s, "GET", "/orders/none", ""); code != http.StatusNotFound {
		t.Error(code)
	}
}
