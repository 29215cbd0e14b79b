package service

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	documentVersion = 1 // the version of the stored form

	answersPrefix = "answers/"  // + the hash of a key: what was answered the hash of a key: the stored answer
	agesPrefix    = "answered/" // + an instant, "/" and the hash of a key: which answers are old
	sweepEvery    = time.Minute
	sweepAtOnce   = 200
)

// Answers keeps what requests with an idempotency key were answered, beside the runs.
type Answers struct {
	documents journal.Documents
	keep      time.Duration
	now       func() core.Time

	mu    sync.Mutex
	swept core.Time
}

// NewAnswers returns the store of answers in a journal. Each is kept for a time.
func NewAnswers(documents journal.Documents, keep time.Duration, now func() core.Time) *Answers {
	return &Answers{documents: documents, keep: keep, now: now}
}

// storedAnswer is an answer in its stored form.
type storedAnswer struct {
	At    core.Time       `json:"at"`
	Value json.RawMessage `json:"value"`
}

// Recall returns the value that is stored under the hash of a key; nil: there is none, or it is too old.
func (a *Answers) Recall(ctx context.Context, hash string) ([]byte, error) {
	key := answersPrefix + hash
	found, err := a.documents.ReadDocuments(ctx, key)
	if err != nil || len(found) == 0 {
		return nil, wrap(err)
	}
	var stored storedAnswer
	if err := journal.DecodeDocument(found[0].Value, documentVersion, &stored); err != nil {
		return nil, fmt.Errorf("answer %s: %w", hash, err)
	}
	if stored.At.Add(a.keep) <= a.now() {
		return nil, nil
	}
	return stored.Value, nil
}

// Remember stores an answer under the hash of a key. It returns when that is durable. Answers that are too old go.
func (a *Answers) Remember(ctx context.Context, hash string, value []byte) error {
	now := a.now()
	text, err := journal.EncodeDocument(documentVersion, storedAnswer{At: now, Value: value})
	if err != nil {
		return err
	}
	documents, err := a.old(ctx, now)
	if err != nil {
		return wrap(err)
	}
	return wrap(a.documents.PutDocuments(ctx, append(documents,
		journal.Document{Key: answersPrefix + hash, Value: text},
		journal.Document{Key: ageKey(now) + "/" + hash, Value: []byte("{}")})...))
}

// Forget removes the value that is stored under the hash of a key.
func (a *Answers) Forget(ctx context.Context, hash string) error {
	return wrap(a.documents.PutDocuments(ctx, journal.Document{Key: answersPrefix + hash}))
}

// ageKey sorts by instant.
func ageKey(at core.Time) string { return fmt.Sprintf("%s%020d", agesPrefix, at) }

// old returns the removal of answers that are too old, once in a while.
func (a *Answers) old(ctx context.Context, now core.Time) (gone []journal.Document, err error) {
	a.mu.Lock()
	due := a.swept == 0 || now >= a.swept.Add(sweepEvery)
	if due {
		a.swept = now
	}
	a.mu.Unlock()
	if !due {
		return nil, nil
	}
	ages, err := a.documents.FindDocuments(ctx, agesPrefix, ageKey(now.Add(-a.keep)), false, sweepAtOnce)
	if err != nil {
		return nil, err
	}
	for _, age := range ages {
		hash := age.Key[strings.LastIndex(age.Key, "/")+1:]
		gone = append(gone, journal.Document{Key: age.Key})
		// The key may have been used again since.
		if value, err := a.Recall(ctx, hash); err != nil {
			return nil, err
		} else if value == nil {
			gone = append(gone, journal.Document{Key: answersPrefix + hash})
		}
	}
	return gone, nil
}
