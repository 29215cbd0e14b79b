package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// FuzzRequests sends anything to every kind of path: nothing panics, nothing is an error of the server, and whatever is
// refused is a problem.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", "/api/v1/runs", `{"workflow":"order","input":{"n":1},"labels":{"a":"b"},"timeout":"1h"}`},
		{"POST", "/api/v1/runs", `{"flow":"pawl: 1\nname: x\nsteps: [{name: a, noop: }]","deadline":"noon"}`},
		{"POST", "/api/v1/runs", `{"definition":{"id":"00","kind":"flow","name":"x","source":""},"queue":{"name":""}}`},
		{"GET", "/api/v1/runs?limit=3&phase=failed&label=a%3Db&cursor=AQ&createdFrom=2026-01-02T15:04:05Z", ""},
		{"GET", "/api/v1/runs/w1", ""},
		{"GET", "/api/v1/runs/w1/outcome?wait=1ms", ""},
		{"POST", "/api/v1/runs/w1/events", `{"name":"approved","payload":{"by":1},"id":"x"}`},
		{"POST", "/api/v1/runs/w1/extend", `{"by":"-1h","limit":"run"}`},
		{"POST", "/api/v1/runs/w1/steps/approval/set-policy", `{"policy":{"retry":"fixed(3, 1s)"}}`},
		{"POST", "/api/v1/runs/w1/steps/each%5B1%5D/fail", `{"failure":{"kind":"error","retryAfter":"1s"}}`},
		{"POST", "/api/v1/runs/w1/restart", `{"from":"first"}`},
		{"POST", "/api/v1/bulk/pause", `{"query":{"labels":{"a":"b"}},"dryRun":true}`},
		{"GET", "/api/v1/definitions/04714714821c0ad7546afae76fbc7f0f", ""},
		{"DELETE", "/docs", ""},
		{"GET", "/openapi.json", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		b := newBed(t)
		b.plain("POST", "/api/v1/runs", `{"workflow":"order","workflowId":"w1"}`)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // a wait and a stream end with it
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, "http://pawl"+target, strings.NewReader(body))
		if err != nil {
			t.Skip() // no program could send it
		}
		rec := httptest.NewRecorder()
		b.server.http.Handler.ServeHTTP(rec, req)
		if rec.Code < 400 || ctx.Err() != nil {
			return
		}
		var p httpapi.Problem
		err = json.Unmarshal(rec.Body.Bytes(), &p)
		if rec.Code >= 500 || err != nil || p.Status != rec.Code || p.Code == "" || p.Detail == "" {
			t.Errorf("%s %s %q: %d %s", method, target, body, rec.Code, rec.Body)
		}
	})
}
