package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// claim is a key that was used for a run of another partition.
type claim struct {
	stored  storedClaim
	gone    bool         // the start was refused, and the removal is not durable yet
	first   *StartCall   // the start that made the claim; nil if it was made before the partition was opened
	waiting []*StartCall // starts that wait for the result of the run's start
	batch   uint64       // the batch with its last change; 0 if it was read
	durable bool         // it is stored, so its run may be started whatever happens to this partition
}

// storedClaim is a claim as its document has it.
type storedClaim struct {
	Workflow string     `json:"workflow"`
	Key      string     `json:"key"`
	Run      core.RunID `json:"run"`
	Input    string     `json:"input"` // a hash of what the run was started with
	At       core.Time  `json:"at"`
	Pending  bool       `json:"pending,omitempty"` // it is not known yet whether the run was started
}

// documentVersion is the version of the documents of claims.
const documentVersion = 1

const prunePage = 200 // how many old runs or claims are removed at once

// claimsOf returns the beginning of the keys of a partition's claims.
func claimsOf(partition int) string { return journal.OfPartition(partition) + "keys/" }

func (k startKey) document(partition int) string {
	sum := sha256.Sum256([]byte(k.workflow + "\x00" + k.key))
	return claimsOf(partition) + hex.EncodeToString(sum[:])
}

// inputHash makes a hash of an input that is the same for inputs that mean the same; see sameJSON.
func inputHash(input []byte) string {
	if v, ok := jsonValue(input); ok {
		if text, err := json.Marshal(v); err == nil {
			input = text
		}
	}
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:16])
}

// startKeyed answers a start whose key was, or is now, claimed for a run of another partition. It returns false if the
// run lives here.
func (s *starts) startKeyed(c *StartCall) bool {
	req := &c.Start
	key := startKey{req.Definition.Name, req.Key}
	if home, _, err := Home(req, s.partitions); err != nil || home != s.cfg.Partition {
		return false
	}
	k, err := s.claimed(key)
	here := s.home(core.KeyOfStart(key.workflow, req.WorkflowID, key.key, 0)) == s.cfg.Partition
	if err == nil && k == nil && !here {
		var found bool
		if _, found, err = s.residents.keyRun(key); err == nil && !found {
			k, err = s.claim(c, key)
		}
	}
	switch {
	case err != nil:
		c.Err = failure("start", req.Key, err)
	case k == nil:
		return false
	case k.stored.Input != inputHash(req.Input):
		c.Err = otherInput(req, k.stored.Run)
	case k.stored.Pending:
		k.waiting = append(k.waiting, c)
		return true
	default:
		c.Answer.Existing = true
		c.Answer.Run, c.Err = s.lastOf(k)
	}
	s.pipeline.reply(c)
	return true
}

// claimed returns the claim of a key, or nil if there is none, or its run was removed because it was old.
func (s *starts) claimed(key startKey) (*claim, error) {
	if k := s.claims[key]; k != nil {
		if k.gone {
			return nil, nil
		}
		return k, nil
	}
	found, err := s.cfg.Journal.ReadDocuments(s.ctx, key.document(s.cfg.Partition))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	k := &claim{durable: true}
	if err := journal.DecodeDocument(found[0].Value, documentVersion, &k.stored); err != nil {
		return nil, fmt.Errorf("the claim of the key %q: %w", key.key, err)
	}
	if k.stored.Pending {
		s.keep(key, k)
		return k, nil
	}
	if s.cfg.Retention == 0 {
		return k, nil
	}
	old, err := k.stored.lapsed(s.ctx, s.cfg.Journal, s.now.Add(-s.cfg.Retention))
	if old || err != nil {
		return nil, err
	}
	return k, nil
}

// lapsed reports whether the run of a claim that is older than an instant was removed, with those that followed it.
func (s *storedClaim) lapsed(ctx context.Context, j journal.Journal, before core.Time) (bool, error) {
	if s.Pending || s.At >= before {
		return false, nil
	}
	_, err := j.Find(ctx, journal.Lookup{Workflow: s.Workflow, Key: s.Key})
	if errors.Is(err, journal.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// lastOf returns the last run of the chain for which a key was claimed, according to the view.
func (s *starts) lastOf(k *claim) (core.RunID, error) {
	id, err := s.cfg.Journal.Find(s.ctx, journal.Lookup{Workflow: k.stored.Workflow, Key: k.stored.Key})
	if errors.Is(err, journal.ErrNotFound) {
		return k.stored.Run, nil // the view is late
	}
	if err != nil {
		return core.RunID{}, failure("start", k.stored.Key, err)
	}
	return id, nil
}

// claim claims a key for a new run of another partition, and has the run started there.
func (s *starts) claim(c *StartCall, key startKey) (*claim, error) {
	req := &c.Start
	if len(req.Keep) > 0 {
		return nil, invalid("start", req.Key, "a run that keeps results of another one has no idempotency key")
	}
	if c.workflow == nil {
		if _, err := s.defs.use(s.ctx, &req.Definition); err != nil {
			return nil, invalid("start", req.Definition.Name, "the definition cannot be used: %w", err)
		}
	}
	id := req.RunID
	if id == (core.RunID{}) {
		high, low := s.cfg.Random(), s.cfg.Random()
		id = core.NewRunID(s.now, core.KeyOfWorkflowID(req.WorkflowID), high, low)
	}
	s.pipeline.define(&req.Definition)
	if req.Caller != "" {
		s.cfg.Carried.AddFor(id, req.Caller) // the message to the other partition does not have it
	}
	start := req.Start
	start.Definition, start.Workflow = req.Definition.ID, req.Definition.Name
	s.send(core.Message{To: id, Content: core.KeyedStart{Start: start, Use: req.OnConflict == ConflictUse}})
	k := &claim{
		stored: storedClaim{key.workflow, key.key, id, inputHash(req.Input), s.now, true}, first: c,
	}
	s.keep(key, k)
	return k, s.storeClaim(key, k)
}

// keep keeps a claim in memory.
func (s *starts) keep(key startKey, k *claim) {
	if s.claims == nil {
		s.claims = make(map[startKey]*claim)
	}
	s.claims[key] = k
}

// storeClaim puts a claim, or its removal, into the open batch.
func (s *starts) storeClaim(key startKey, k *claim) error {
	d := journal.Document{Key: key.document(s.cfg.Partition)}
	if !k.gone {
		var err error
		if d.Value, err = journal.EncodeDocument(documentVersion, k.stored); err != nil {
			return err
		}
	}
	k.batch = s.pipeline.open.seq
	s.pipeline.open.documents = append(s.pipeline.open.documents, d)
	s.pipeline.open.claimed = append(s.pipeline.open.claimed, key)
	return nil
}

// beginKeyed starts the run for which another partition has claimed a key, and sends that partition the result.
func (s *starts) beginKeyed(id core.RunID, m *core.KeyedStart) {
	req := StartRequest{
		Definition: journal.Definition{ID: m.Definition, Name: m.Workflow}, RunID: id, Start: m.Start,
	}
	if m.Use {
		req.OnConflict = ConflictUse
	}
	started, err := s.residents.existingNamed(&req)
	if err == nil && !started.Existing {
		started, err = s.createKeyed(&req)
	}
	if err != nil && !decided(CodeOf(err)) && s.noteTemporary(err) {
		return
	}
	answer := core.KeyedStarted{Workflow: m.Workflow, Key: m.Key, Claimed: id, Run: started.Run}
	if err != nil {
		refused := &Error{Code: CodeOf(err), Err: err}
		_ = errors.As(err, &refused)
		answer.Refusal = core.Refusal{
			Code: string(refused.Code), ID: refused.ID, Message: refused.Reason(), Hint: refused.Hint,
		}
	}
	s.send(core.Message{Content: answer})
}

func (s *starts) createKeyed(req *StartRequest) (Started, error) {
	w, err := s.defs.stored(s.ctx, req.Definition.ID)
	if err != nil {
		return Started{}, failure("start", req.Definition.Name, err)
	}
	return s.create(req, w, core.RunID{})
}

// decided reports whether an error with that code is the answer to a start. With the others it is not known yet.
func decided(code Code) bool {
	switch code {
	case CodeInvalid, CodeTooLarge, CodeNotFound, CodeConflict, CodeRunClosed, CodeFull, CodeStale, CodeInternal:
		return true
	default:
		return false
	}
}

// endClaim answers those who wait for the start of a run in another partition.
func (s *starts) endClaim(m *core.KeyedStarted) error {
	key := startKey{m.Workflow, m.Key}
	k, err := s.claimed(key)
	if err != nil || k == nil || k.stored.Run != m.Claimed || !k.stored.Pending {
		return err
	}
	k.stored.Pending, k.gone = false, m.Run != m.Claimed
	waiting := k.waiting
	k.waiting = nil
	if err := s.storeClaim(key, k); err != nil {
		return err
	}
	for _, c := range waiting {
		switch {
		case !k.gone:
			c.Answer = Started{Run: m.Run, Existing: c != k.first}
		case c != k.first:
			s.start(c) // the key is free again, and this start may have another workflow id
			continue
		case m.Run != (core.RunID{}):
			c.Answer = Started{Run: m.Run, Existing: true}
		default:
			c.Err = &Error{
				Code: Code(m.Refusal.Code), Op: "start", ID: m.Refusal.ID,
				Err: errors.New(m.Refusal.Message), Hint: m.Refusal.Hint,
			}
		}
		c.answer() // the other partition has stored the answer, whether or not this one can record that
	}
	return nil
}

// committed forgets the claims whose last change is durable now: they are read when they are needed.
func (s *starts) committed(b *batch) {
	for _, key := range b.claimed {
		k := s.claims[key]
		if k == nil || k.batch != b.seq {
			continue
		}
		if k.durable = true; len(k.waiting) == 0 {
			delete(s.claims, key)
		}
	}
}

// forget drops the claims. Callers that wait for a stored one learn that the outcome is unknown: the partition of the
// run starts it, or refuses it.
func (s *starts) forget(why error) {
	for _, k := range s.claims {
		for _, c := range k.waiting {
			if c.Err = failure("start", c.Start.Key, why); k.durable {
				c.Err = &Error{
					Code: CodeUncertain, Op: "start", ID: c.Start.Key, Err: why,
					Hint: "the run may be started all the same; it is safe to repeat the request with the same key",
				}
			}
			c.answer()
		}
	}
	s.claims = nil
}

// dropClaims removes the claims of removed runs. They were read before, so each is looked at again.
func (s *starts) dropClaims(old []journal.Document) error {
	if s.pipeline.open == nil {
		return nil // the partition is not open
	}
	for _, d := range old {
		var stored storedClaim
		if err := journal.DecodeDocument(d.Value, documentVersion, &stored); err != nil {
			return err
		}
		key := startKey{stored.Workflow, stored.Key}
		if s.claims[key] != nil {
			continue
		}
		now, err := s.cfg.Journal.ReadDocuments(s.ctx, d.Key)
		if err != nil {
			return err
		}
		if len(now) == 1 && bytes.Equal(now[0].Value, d.Value) {
			k := &claim{stored: stored, gone: true}
			s.keep(key, k)
			if err := s.storeClaim(key, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// oldClaims returns the claims of a partition from a document on whose runs were removed because they were old. It
// looks at some claims only, and returns where to go on; empty: at the first one.
func oldClaims(
	ctx context.Context, j journal.Journal, partition int, from string, before core.Time,
) (old []journal.Document, next string, err error) {
	all := claimsOf(partition)
	found, err := j.FindDocuments(ctx, max(from, all), all+"~", false, prunePage)
	if err != nil {
		return nil, "", err
	}
	for _, d := range found {
		var s storedClaim
		if err := journal.DecodeDocument(d.Value, documentVersion, &s); err != nil {
			return nil, "", err
		}
		gone, err := s.lapsed(ctx, j, before)
		if err != nil {
			return nil, "", err
		}
		if gone {
			old = append(old, d)
		}
		next = d.Key + "\x00"
	}
	if len(found) < prunePage {
		next = ""
	}
	return old, next, nil
}
