package access

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	auditPrefix = "audit/" // + an instant, "-" and a random number: an entry
	// auditKept is how long entries are kept.
	auditKept    = 90 * 24 * time.Hour
	auditSweep   = time.Minute
	mostAtOnce   = 256 // entries that one commit writes, or removes
	mostWaiting  = 4096
	writeAgain   = time.Second      // the pause after a failure
	writeWithin  = 30 * time.Second // a group is written, or the storage does not answer
	recordWithin = time.Second      // there is room for an entry
	defaultLimit = 100
	mostLimit    = 1000
	// scanAtMost limits how many entries one page reads to find those of an actor.
	scanAtMost = 10_000
)

// log writes the audit log. Entries are written in groups, so that an operation does not need a commit of its own.
type log struct {
	entries chan *api.Audited
	over    chan struct{} // closed when no more entries come
	written chan error    // the last error of the writer, when it has ended
	once    sync.Once
	waiting []journal.Document // entries that could not be written yet
	lost    error              // why
	swept   api.Time
}

func (l *log) begin(k *Keeper) {
	l.entries, l.over, l.written = make(chan *api.Audited, mostWaiting), make(chan struct{}), make(chan error, 1)
	go func() { l.written <- k.write() }()
}

// Record adds an entry to the audit log. It is durable a moment later, and Close waits for that. While the storage is
// slow, Record waits for a short time; an entry for which there is no room goes to the log of the process.
func (k *Keeper) Record(e api.Audited) {
	e.At = k.now()
	select {
	case k.log.entries <- &e:
		return
	default:
	}
	late := time.NewTimer(recordWithin)
	defer late.Stop()
	select {
	case k.log.entries <- &e:
	case <-k.log.over:
	case <-late.C:
		k.logger.Error("an entry of the audit log cannot be stored", "id", "audit-not-stored", "entry", e)
	}
}

// Close writes the recorded entries. It returns the error of the entries that could not be written last. The journal is
// still needed.
func (k *Keeper) Close() error {
	k.log.once.Do(func() { close(k.log.over) })
	err := <-k.log.written
	k.log.written <- err
	return err
}

// write writes entries until no more come. While the storage takes none, they wait.
func (k *Keeper) write() error {
	for {
		var again <-chan time.Time
		if len(k.log.waiting) > 0 {
			again = time.After(writeAgain)
		}
		select {
		case e := <-k.log.entries:
			k.writeGroup(k.group(*e))
		case <-again:
			k.writeGroup(nil)
		case <-k.log.over:
			for {
				select {
				case e := <-k.log.entries:
					k.writeGroup(k.group(*e))
				default:
					k.writeGroup(nil)
					return k.log.lost
				}
			}
		}
	}
}

// group returns an entry and those that wait behind it.
func (k *Keeper) group(e api.Audited) []journal.Document {
	group := []journal.Document{document(e)}
	for len(group) < mostAtOnce {
		select {
		case e := <-k.log.entries:
			group = append(group, document(*e))
			continue
		default:
		}
		break
	}
	return group
}

// writeGroup writes a group and the entries that wait before it. If the storage takes no writes for now, the newest of
// them wait for the next try: callers of Record do not wait for that.
func (k *Keeper) writeGroup(group []journal.Document) {
	l, ctx := &k.log, context.Background()
	l.waiting = append(l.waiting, group...)
	l.waiting = l.waiting[max(0, len(l.waiting)-mostWaiting):]
	for len(l.waiting) > 0 {
		next := l.waiting[:min(len(l.waiting), mostAtOnce)]
		err := k.put(append(slices.Clone(next), k.old(ctx)...))
		if l.lost = failed(err); journal.Stalls(err) {
			return
		}
		l.waiting = l.waiting[len(next):] // another failure would come again
	}
}

// put writes documents. A storage that takes too long does not answer.
func (k *Keeper) put(documents []journal.Document) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), writeWithin, journal.ErrNoAnswer)
	defer cancel()
	err := k.documents.PutDocuments(ctx, documents...)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// document returns an entry in its stored form. Its key sorts by instant.
func document(e api.Audited) journal.Document {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // it never fails
	e.ID = fmt.Sprintf("%020d-%s", int64(e.At), hex.EncodeToString(random))
	text, _ := journal.EncodeDocument(documentVersion, e) // it has texts and numbers only
	return journal.Document{Key: auditPrefix + e.ID, Value: text}
}

// old returns the removal of entries that are too old, once in a while.
func (k *Keeper) old(ctx context.Context) []journal.Document {
	now := k.now()
	if k.log.swept > 0 && now.Sub(k.log.swept) < auditSweep {
		return nil
	}
	k.log.swept = now
	end := fmt.Sprintf("%s%020d", auditPrefix, int64(api.At(now.Std().Add(-auditKept))))
	found, err := k.documents.FindDocuments(ctx, auditPrefix, end, false, mostAtOnce)
	if err != nil {
		return nil // the next sweep finds them
	}
	for i := range found {
		found[i].Value = nil
	}
	return found
}

func (k *Keeper) Audit(ctx context.Context, q api.AuditQuery) (api.AuditPage, error) {
	return k.audit(ctx, q, func(api.Audited) bool { return true })
}

// audit lists the entries that concern the caller.
func (k *Keeper) audit(ctx context.Context, q api.AuditQuery, concerns func(api.Audited) bool) (api.AuditPage, error) {
	from, before := auditPrefix, after(auditPrefix)
	if q.Since > 0 {
		from = fmt.Sprintf("%s%020d", auditPrefix, int64(q.Since))
	}
	if q.Cursor != "" {
		id, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || !isID(string(id)) {
			return api.AuditPage{}, &api.Error{
				Code: api.CodeInvalid, Message: "this is not a cursor of the audit log",
				Hint: "take next of the page before",
			}
		}
		before = auditPrefix + string(id)
	}
	limit := min(q.Limit, mostLimit)
	if limit <= 0 {
		limit = defaultLimit
	}
	page := api.AuditPage{Entries: []api.Audited{}}
	for scanned := 0; from < before; {
		found, err := k.documents.FindDocuments(ctx, from, before, true, mostLimit)
		if err != nil {
			return api.AuditPage{}, failed(err)
		}
		for _, d := range found {
			var e api.Audited
			if err := journal.DecodeDocument(d.Value, documentVersion, &e); err != nil {
				return api.AuditPage{}, failed(fmt.Errorf("%s: %w", d.Key, err))
			}
			mine := concerns(e)
			if mine && (q.Actor == "" || q.Actor == e.Actor) {
				page.Entries = append(page.Entries, e)
			}
			scanned++
			before = d.Key
			if len(page.Entries) == limit || scanned == scanAtMost {
				if !mine { // the id of an entry that the caller may not see is not revealed
					e.ID = fmt.Sprintf("%020d-%s", int64(e.At), strings.Repeat("f", 16))
				}
				page.Next = base64.RawURLEncoding.EncodeToString([]byte(e.ID))
				return page, nil
			}
		}
		if len(found) < mostLimit {
			return page, nil
		}
	}
	return page, nil
}

// isID reports whether a text is the id of an entry.
func isID(text string) bool {
	at, random, ok := strings.Cut(text, "-")
	digits := func(s, of string, n int) bool { return len(s) == n && strings.Trim(s, of) == "" }
	return ok && digits(at, "0123456789", 20) && digits(random, "0123456789abcdef", 16)
}
