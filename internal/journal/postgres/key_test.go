package postgres

import "testing"

// TestKey checks that files of one database are found however somebody logs in, and no two databases share them.
func TestKey(t *testing.T) {
	key := func(dsn string) string {
		t.Helper()
		k, err := Key(dsn)
		if err != nil || len(k) != 16 {
			t.Fatalf("%s: %q, %v", dsn, k, err)
		}
		return k
	}
	one := key("postgres://ada:secret@db.example/shop?sslmode=disable")
	if other := key("postgresql://bob@db.example:5432/shop?schema=pawl&lease=2s&sslmode=disable"); other != one {
		t.Errorf("%s and %s for one database", one, other)
	}
	for _, dsn := range []string{
		"postgres://ada@db2.example/shop?sslmode=disable", "postgres://ada@db.example:5433/shop?sslmode=disable",
		"postgres://ada@db.example/stock?sslmode=disable", "postgres://ada@db.example/shop?schema=b&sslmode=disable",
	} {
		if key(dsn) == one {
			t.Errorf("%s has the files of another database", dsn)
		}
	}
	if _, err := Key("mysql://db/shop"); err == nil {
		t.Error("an address that is none has a key")
	}
}
