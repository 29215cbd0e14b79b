package secret

import (
	"slices"
	"testing"
)

// TestOwnVariables checks that Pawl's own configuration goes to no step, and that its secret parts are known as
// secrets.
func TestOwnVariables(t *testing.T) {
	for name, own := range map[string]bool{
		"PAWL_DATABASE": true, "PAWL_TOKEN": true, "PAWL_STORE_B_PASSWORD": true, "PGPASSWORD": true,
		"PGSERVICE":                  true,
		"OTEL_EXPORTER_OTLP_HEADERS": true, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": true, "NOTIFY_SOCKET": true,
		"PATH": false, "HOME": false, "OTEL_SERVICE_NAME": false, "PGP_KEYRING": false, "TRACEPARENT": false,
		"PAWL": false,
	} {
		if IsOwn(name) != own {
			t.Errorf("%s: %t", name, !own)
		}
	}
	got := OwnValues([]string{
		"PAWL_DATABASE=postgres://pawl:p%40ssword@db/pawl", "PAWL_TOKEN=pawl_a_b", "PGPASSWORD=hunter22",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20abc,x=longvalue", "PAWL_TOKEN_FILE=/run/token",
		"PAWL_LISTEN=127.0.0.1:7295", "PGHOST=database", "DB=postgres://a:bcdefg@b/", "PAWL_SHORT_PASSWORD=abc",
		"PAWL_STORE=postgres:///pawl?password=in-the-query",
	})
	for _, want := range []string{
		"p@ssword", "p%40ssword", "pawl_a_b", "hunter22", "Bearer abc", "longvalue", "in-the-query",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not found in %q", want, got)
		}
	}
	for _, not := range []string{"/run/token", "database", "bcdefg", "127.0.0.1:7295", "abc"} {
		if slices.Contains(got, not) {
			t.Errorf("%q is taken for a secret", not)
		}
	}
}

// TestAllowedVariables checks that a list of allowed variables leaves out all others, for what steps inherit and for
// what they refer to.
func TestAllowedVariables(t *testing.T) {
	t.Setenv("PAWL_TEST_ALLOWED_OWN", "own")
	t.Setenv("SHOP_REGION", "north")
	t.Setenv("OTHER", "other")
	store := NewStore(nil)
	mark := Mark("01")
	p := Placeholders{Mark: mark}
	refers := func(name string) error {
		text := Placeholder(mark, OfEnv, name)
		return p.Fill(t.Context(), store, &text)
	}
	if !store.Passes("OTHER") || refers("OTHER") != nil || store.Passes("PAWL_TEST_ALLOWED_OWN") ||
		refers("PAWL_TEST_ALLOWED_OWN") == nil {
		t.Error("without a list")
	}
	if store.AllowEnv("[") == nil {
		t.Error("what is no pattern is taken")
	}
	if err := store.AllowEnv("SHOP_*"); err != nil {
		t.Fatal(err)
	}
	if store.Passes("OTHER") || refers("OTHER") == nil || !store.Passes("SHOP_REGION") ||
		refers("SHOP_REGION") != nil || !store.Passes("PATH") || !store.Passes("LC_ALL") {
		t.Error("with a list")
	}
	var none *Store
	if none.Passes("PGPASSWORD") || !none.Passes("OTHER") {
		t.Error("without a store")
	}
}

// TestHide checks that hidden values are taken out of output although no step refers to them.
func TestHide(t *testing.T) {
	store := NewStore(nil)
	store.Hide("hunter22hunter22")
	if got := store.Redactor().Text("it is hunter22hunter22."); got != "it is ***." {
		t.Error(got)
	}
}
