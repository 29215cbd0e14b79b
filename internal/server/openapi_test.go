package server

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

var rewrite = flag.Bool("rewrite", false, "write the description of the API as it is now")

// TestOpenAPI checks that the description that was last reviewed is the one that the server gives.
func TestOpenAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		status, header, text := b.plain("GET", "/openapi.json", "")
		if status != 200 || header.Get("Content-Type") != "application/openapi+json" {
			t.Fatalf("%d %v", status, header)
		}
		if *rewrite {
			if err := os.WriteFile("openapi.json", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile("openapi.json")
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != text {
			t.Error("openapi.json is not what the server describes: review the difference after " +
				"go test ./internal/server -run TestOpenAPI -rewrite")
		}
	})
}

// TestDocs checks that the page for people has every operation, and loads nothing from elsewhere.
func TestDocs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		status, header, page := b.plain("GET", "/docs", "")
		if status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%d %v", status, header)
		}
		_, _, text := b.plain("GET", "/openapi.json", "")
		var described struct {
			Paths map[string]map[string]struct{ OperationID, Summary string }
		}
		if err := json.Unmarshal([]byte(text), &described); err != nil || len(described.Paths) < 20 {
			t.Fatalf("%d paths, %v", len(described.Paths), err)
		}
		for path, operations := range described.Paths {
			for _, op := range operations {
				if op.OperationID == "" || op.Summary == "" || !strings.Contains(page, `id="`+op.OperationID+`"`) ||
					!strings.Contains(page, path) {
					t.Errorf("%s: %+v is not on the page", path, op)
				}
			}
		}
		if elsewhere := regexp.MustCompile(`(src|href)="[^/"]|https?:`).FindString(page); elsewhere != "" {
			t.Errorf("the page loads %s", elsewhere)
		}
	})
}
