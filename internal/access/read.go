package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	// freshFor is how long tokens are believed that were read before. With several servers on one database, each learns
	// within this time what another one has revoked.
	freshFor = 2 * time.Second
	// trustedFor is how long tokens count on after they were read, while the storage cannot be asked.
	trustedFor = 5 * time.Minute
	// askWithin is how long a caller waits for tokens to be read, and askKnown one whose token was known before.
	askWithin = time.Second
	askKnown  = 400 * time.Millisecond
	// failureFor is how long the storage is not asked again after it failed.
	failureFor = time.Second
)

// reader has the tokens as they were read last.
type reader struct {
	flight singleflight.Group // all callers wait for one read

	mu       sync.Mutex
	tokens   map[string]stored // the tokens by id; never changed, but replaced
	at       api.Time          // when tokens were read
	changes  int               // how often this process has changed them: results of earlier reads do not count
	failure  error             // the error of the last read; nil if it succeeded
	failedAt time.Time
	since    time.Time // when the first read failed since the last success
}

// errUnknown returns the error of a token that does not count.
func errUnknown() error {
	return &api.Error{
		Code: api.CodeNoToken, Message: "this token is not known to the server",
		Hint: "it may have been revoked; pawl token create makes one",
	}
}

// Authenticate returns the token whose text a caller shows. Errors: CodeNoToken; CodeStalled if the storage cannot be
// asked, after a second at most; CodeForbidden if an issuer knows the bearer, who has no role.
func (k *Keeper) Authenticate(ctx context.Context, text string) (api.ShownToken, error) {
	rest, ok := strings.CutPrefix(text, mark)
	id, secret, both := strings.Cut(rest, "_")
	switch {
	case !ok && k.issuer != nil && strings.Count(text, ".") == 2: // it has the form of a JSON Web Token
		t, err := k.issuer.Bearer(ctx, text)
		return api.ShownToken{Token: t}, err
	case !ok || !both:
		return api.ShownToken{}, errUnknown()
	}
	return k.look(ctx, func() (stored, bool) {
		t, known := k.find(id)
		same := subtle.ConstantTimeCompare([]byte(hashOf(secret)), []byte(t.Hash)) == 1
		return t, known && same
	})
}

// Counts returns an error if a token that was shown before is no longer valid. Errors: as Authenticate.
func (k *Keeper) Counts(ctx context.Context, token api.Token) error {
	if strings.HasPrefix(token.ID, foreign) { // it is not stored, and only its time ends it
		return k.expired(token)
	}
	_, err := k.look(ctx, func() (stored, bool) { return k.find(token.ID) })
	return err
}

// look returns the token that find finds among the fresh ones, or those that are trusted for now.
func (k *Keeper) look(ctx context.Context, find func() (stored, bool)) (api.ShownToken, error) {
	wait := askWithin
	if _, known := find(); known {
		wait = askKnown
	}
	failure := k.refresh(ctx, wait)
	t, known := find()
	switch {
	case failure != nil && !(known && unreachable(failure) && k.trusted()):
		return api.ShownToken{}, failure
	case !known:
		return api.ShownToken{}, errUnknown()
	}
	if err := k.expired(t.Token); err != nil {
		return api.ShownToken{}, err
	}
	return api.ShownToken{Token: t.Token, Unchecked: failure != nil}, nil
}

// Check reads the tokens as a request does, and returns why they cannot be read.
func (k *Keeper) Check(ctx context.Context) error { return k.refresh(ctx, askWithin) }

// find returns the token with an id, as it was read last.
func (k *Keeper) find(id string) (stored, bool) {
	k.read.mu.Lock()
	defer k.read.mu.Unlock()
	t, known := k.read.tokens[id]
	return t, known
}

// trusted reports whether the tokens were read so lately that they count while the storage cannot be asked.
func (k *Keeper) trusted() bool {
	k.read.mu.Lock()
	defer k.read.mu.Unlock()
	return k.read.tokens != nil && k.now().Sub(k.read.at) <= trustedFor
}

// errNoAnswer is the error of a storage that takes too long.
var errNoAnswer = fmt.Errorf("%w within %s", journal.ErrNoAnswer, askWithin)

// refresh reads the tokens unless they are fresh, or the last try has just failed. It waits so long at most.
func (k *Keeper) refresh(ctx context.Context, wait time.Duration) error {
	r := &k.read
	r.mu.Lock()
	age, failure := k.now().Sub(r.at), r.failure
	fresh := r.tokens != nil && age >= 0 && age <= freshFor // the clock may have been set back
	again := failure == nil || time.Since(r.failedAt) >= failureFor
	r.mu.Unlock()
	switch {
	case fresh:
		return nil
	case !again:
		return failure
	}
	done := r.flight.DoChan("tokens", func() (any, error) {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		_, err := k.load(within)
		if within.Err() != nil {
			err = failed(errNoAnswer)
		}
		k.note(err)
		return nil, err
	})
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return &api.Error{Code: api.CodeCancelled, Message: "the caller has gone", Err: ctx.Err()}
	case <-late.C:
		err := failed(errNoAnswer)
		if wait == askWithin { // the read goes on even if the storage does not notice that it is too late
			k.note(err)
		}
		return err
	}
}

// note remembers whether a read of the tokens failed, and logs the first failure and the success after it.
func (k *Keeper) note(err error) {
	r := &k.read
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.failedAt = err, time.Now()
	switch {
	case err != nil && r.since.IsZero():
		r.since = r.failedAt
		k.logger.Error("the tokens cannot be read; those that are known count on for some minutes while the storage "+
			"cannot be asked", "id", "tokens-unreadable", "for", trustedFor.String(), "error", err)
	case err == nil && !r.since.IsZero():
		k.logger.Info("the tokens can be read again", "after", time.Since(r.since).Seconds())
		r.since = time.Time{}
	}
}

// unreachable reports whether an error means that the storage cannot be reached, and not that it is damaged.
func unreachable(err error) bool {
	return journal.Stalls(err) || errors.Is(err, context.DeadlineExceeded)
}

// load reads all tokens. The result is the caller's own.
func (k *Keeper) load(ctx context.Context) (map[string]stored, error) {
	r := &k.read
	r.mu.Lock()
	changes, began := r.changes, k.now()
	r.mu.Unlock()
	found, err := k.documents.FindDocuments(ctx, tokenPrefix, after(tokenPrefix), false, mostTokens)
	if err != nil {
		return nil, failed(err)
	}
	tokens := make(map[string]stored, len(found))
	for _, d := range found {
		var t stored
		if err := journal.DecodeDocument(d.Value, documentVersion, &t); err != nil {
			return nil, failed(fmt.Errorf("%s: %w", d.Key, err))
		}
		tokens[t.ID] = t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if changes == r.changes {
		r.tokens, r.at = maps.Clone(tokens), began
	}
	return tokens, nil
}

// changed replaces the tokens after a change by this process.
func (k *Keeper) changed(tokens map[string]stored) {
	k.read.mu.Lock()
	defer k.read.mu.Unlock()
	k.read.tokens, k.read.at = tokens, k.now()
	k.read.changes++
}
