package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

func answersOf(j journal.Journal) Answers {
	documents, ok := j.(journal.Documents)
	if !ok {
		return nil
	}
	return service.NewAnswers(documents, 24*time.Hour, func() core.Time { return policy.At(time.Now()) })
}

// extended returns how often a run's deadline was extended.
func (b *bed) extended(run string) int {
	b.Helper()
	r, err := b.embedded.Run(b.Context(), run)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, op := range r.Operations {
		if op.Operation == api.OpExtend {
			n++
		}
	}
	return n
}

// TestIdempotencyKeys checks that a request that is repeated with its key is carried out once, and gets its first
// answer, also from the next server. Another request with the same key is refused.
func TestIdempotencyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		b := newBedOn(t, j)
		st, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1/runs/" + st.Run
		post := func(path, body, key string) (int, http.Header, string) {
			t.Helper()
			return b.plain("POST", path, body, keyHeader, key)
		}
		want := func(what string, status, wanted int, text, part string) {
			t.Helper()
			if status != wanted || !strings.Contains(text, part) {
				t.Errorf("%s: %d %s, want %d with %q", what, status, text, wanted, part)
			}
		}
		for i := range 3 {
			status, header, text := post(path+"/extend", `{"by":"10m"}`, "k-1")
			want("extend", status, 204, text, "")
			if replayed := header.Get("Idempotency-Replayed") != ""; replayed != (i > 0) {
				t.Errorf("request %d is answered from memory: %v", i, replayed)
			}
		}
		if n := b.extended(st.Run); n != 1 {
			t.Errorf("it was extended %d times", n)
		}
		status, _, text := post(path+"/extend", `{"by":"20m"}`, "k-1")
		want("another body", status, 409, text, "used for another request")
		status, _, text = post(path+"/pause", `{"by":"10m"}`, "k-1")
		want("another path", status, 409, text, "used for another request")
		_, _, first := post(path+"/restart", `{}`, "k-2")
		_, _, again := post(path+"/restart", `{}`, "k-2")
		if first != again || !strings.Contains(first, `"run"`) {
			t.Errorf("two restarts with one key answer %s and %s", first, again)
		}
		status, _, text = post(path+"/steps/none/skip", ``, "k-3")
		want("a refusal", status, 404, text, "no step")
		status, header, again := post(path+"/steps/none/skip", ``, "k-3")
		want("the refusal again", status, 404, again, text)
		if header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("the refusal again has the type %s", header.Get("Content-Type"))
		}
		for what, c := range map[string][2]string{
			"a long key":       {path + "/pause", strings.Repeat("k", 256)},
			"a bulk operation": {"/api/v1/bulk/pause", "k-4"},
			"a poll":           {"/api/v1/tasks/poll", "k-4"},
		} {
			status, _, text = post(c[0], `{}`, c[1])
			want(what, status, 400, text, keyHeader)
		}
		b.close()

		after := newBedOn(t, j.Reopen())
		b = after
		status, header, text = post(path+"/extend", `{"by":"10m"}`, "k-1")
		want("after a restart of the server", status, 204, text, "")
		if header.Get("Idempotency-Replayed") == "" || b.extended(st.Run) != 1 {
			t.Error("the next server has carried it out again")
		}
		<-time.After(25 * time.Hour)
		status, _, text = post("/api/v1/runs/"+st.Run+"/pause", `{"by":"20m"}`, "k-1")
		want("a day later the key is free", status, 409, text, "refused")
		left, err := b.journal.(journal.Documents).FindDocuments(t.Context(), "answe", "answf", false, 100)
		if err != nil || len(left) != 2 {
			t.Errorf("%d documents of answers are left, %v", len(left), err)
		}
	})
}

// cutAnswers lets the server end before an answer is remembered.
type cutAnswers struct {
	Answers
	cut bool
}

func (c *cutAnswers) Remember(ctx context.Context, hash string, value []byte) error {
	if c.cut && strings.Contains(string(value), `"status"`) {
		return &api.Error{Code: api.CodeStalled}
	}
	return c.Answers.Remember(ctx, hash, value)
}

// TestUnknownAnswer checks that the repetition of a request is told so if nobody knows whether the request was
// carried out, and changes nothing.
func TestUnknownAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		b := newBedOn(t, j, func(c *Config) { c.Answers = &cutAnswers{answersOf(j), true} })
		st, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1/runs/" + st.Run + "/extend"
		status, _, text := b.plain("POST", path, `{"by":"10m"}`, keyHeader, "k")
		if status != 204 {
			t.Fatal(status, text)
		}
		status, _, text = b.plain("POST", path, `{"by":"10m"}`, keyHeader, "k")
		if status != 409 || !strings.Contains(text, `"uncertain"`) || b.extended(st.Run) != 1 {
			t.Errorf("the repetition: %d %s; it was extended %d times", status, text, b.extended(st.Run))
		}
	})
}
