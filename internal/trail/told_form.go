package trail

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// toldForm is the version of the stored form. What has another one is not read: it is made again from the history.
const toldForm = 1

// mostKept is how many ends are kept with a row.
const mostKept = 3

// Row returns the words of a run as they are kept with its row; nil: the row alone tells them, see [OfRow]. A panic of
// the definition's code makes nil, too: a run goes on without these words.
func Row(r *core.Run) (row []byte) {
	defer func() {
		if recover() != nil {
			row = nil
		}
	}()
	t := &speaker{Run: r, itemName: func(id core.StepID) string { return core.ItemName(r, id) }}
	if r.Phase == core.RunSucceeded && t.plain() {
		return nil
	}
	return t.tell().append(nil)
}

// plain reports whether a run that succeeded has nothing else to tell.
func (t *speaker) plain() bool {
	if _, again := lastLife(t.Run); again || t.Run.Next != (core.RunID{}) {
		return false
	}
	for i := range t.Run.Steps {
		if s := &t.Run.Steps[i]; failedBadly(s) || s.Spec.Hook && s.Phase == core.StepCancelled {
			return false
		}
	}
	return true
}

// OfRow returns the words of a run from those that are kept with its row. ok is false if they have to be made from its
// history: they were kept by another version, or not at all.
func OfRow(row []byte, phase core.RunPhase, created, ended core.Time) (t *Told, ok bool) {
	if len(row) == 0 {
		if phase != core.RunSucceeded {
			return nil, false
		}
		say := &phrase{}
		say.add("%s in %s.", capital(words(phase.String())), api.Length(ended.Sub(created)))
		return &Told{status: api.Status(phase.String()), says: say.parts}, true
	}
	r := reader{b: row}
	t = r.told()
	return t, r.err == nil && len(r.b) == 0
}

// The causes and what ends, as they are numbered in the stored form.
var (
	causeNames = []string{api.EndLimit, api.EndAttempts, api.EndNoTime}
	endsNames  = []string{endsRun, endsStep, endsAttempt}
	formNames  = []api.AtForm{
		"", api.FormIn, api.FormFor, api.FormAgo, slotWorker, slotBegins, slotHolders, slotAhead, slotFirst, slotChild,
	}
)

// The fields that a piece has. Text is left out where another field or the instant tells it.
const (
	hasText = 1 << iota
	hasStep
	hasRun
	hasQueue
	hasEvent
	hasAt
	isFailure
)

// The flags of an end.
const (
	endRenewed = 1 << iota
	endSoonest
	endHolds
)

// writer appends values. Instants are differences to the one before.
type writer struct {
	b    []byte
	last core.Time
}

func (w *writer) number(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)) }

func (w *writer) text(s string) {
	w.number(len(s))
	w.b = append(w.b, s...)
}

func (w *writer) instant(at core.Time) {
	w.b = binary.AppendVarint(w.b, int64(at-w.last))
	w.last = at
}

// append appends the stored form.
func (t *Told) append(b []byte) []byte {
	w := &writer{b: append(b, toldForm)}
	w.text(string(t.status))
	for _, parts := range [][]api.Part{t.says, t.then, t.guess} {
		w.number(len(parts))
		for _, p := range parts {
			w.part(p)
		}
	}
	w.instant(t.holds)
	w.text(t.next)
	w.number(len(t.begun))
	for _, name := range t.begun {
		w.text(name)
	}
	ends := t.ends[:min(len(t.ends), mostKept)]
	w.number(len(ends))
	for _, e := range ends {
		w.end(e)
	}
	w.number(len(t.children))
	for _, c := range t.children {
		w.text(c.step)
		w.b = append(w.b, c.child[:]...)
	}
	w.number(flag(1, t.unfinished))
	return w.b
}

func flag(bit int, is bool) int {
	if is {
		return bit
	}
	return 0
}

func (w *writer) part(p api.Part) {
	mask := flag(hasText, p.Text != wordsOf(p)) | flag(hasStep, p.Step != "") | flag(hasRun, p.Run != "") |
		flag(hasQueue, p.Queue != "") | flag(hasEvent, p.Event != "") | flag(hasAt, p.At != 0) |
		flag(isFailure, p.Failure)
	w.b = append(w.b, byte(mask), byte(slices.Index(formNames, p.Form)))
	for _, s := range []string{p.Step, p.Run, p.Queue, p.Event} {
		if s != "" {
			w.text(s)
		}
	}
	if p.At != 0 {
		w.instant(core.Time(p.At))
	}
	if mask&hasText != 0 {
		w.text(p.Text)
	}
}

// wordsOf returns the text that a piece has by itself.
func wordsOf(p api.Part) string {
	switch {
	case p.Form == api.FormFor:
		return "since " + p.At.String()
	case p.At != 0:
		return "at " + p.At.String()
	case p.Form == slotWorker || p.Form == slotBegins || p.Form == slotFirst || p.Form == slotChild:
		return ""
	default:
		return p.Step + p.Run + p.Queue + p.Event
	}
}

func (w *writer) end(e end) {
	flags := flag(endRenewed, e.Renewed) | flag(endSoonest, e.Soonest) | flag(endHolds, e.holds != 0)
	w.b = append(w.b, byte(flags), byte(slices.Index(causeNames, e.Cause)), byte(slices.Index(endsNames, e.Ends)))
	w.text(e.Step)
	w.text(e.Limit)
	w.text(e.Origin)
	w.number(e.Attempts)
	w.number(int(e.After))
	w.number(int(e.Left))
	w.instant(core.Time(e.At))
	w.instant(core.Time(e.From))
	if e.holds != 0 {
		w.instant(e.holds)
	}
}

var errForm = errors.New("not the stored form of a run's words")

// reader takes values off. After an error it returns zero values.
type reader struct {
	b    []byte
	last core.Time
	err  error
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.err = nil, errForm
		return make([]byte, max(min(n, 16), 0))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) number() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errForm
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

// count reads how many values follow, each of which takes a byte or more.
func (r *reader) count() int {
	n := r.number()
	if n > len(r.b) {
		r.b, r.err = nil, errForm
		return 0
	}
	return n
}

func (r *reader) text() string { return string(r.take(r.count())) }

func (r *reader) instant() core.Time {
	d, size := binary.Varint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errForm
		return 0
	}
	r.b = r.b[size:]
	r.last += core.Time(d)
	return r.last
}

// at returns the value with a number; an unknown one is an error.
func at[T any](r *reader, all []T, n byte) (v T) {
	if int(n) >= len(all) {
		r.b, r.err = nil, errForm
		return v
	}
	return all[n]
}

func (r *reader) told() *Told {
	if form := r.take(1); form[0] != toldForm {
		r.err = errForm
		return nil
	}
	t := &Told{status: api.Status(r.text())}
	for _, parts := range []*[]api.Part{&t.says, &t.then, &t.guess} {
		for range r.count() {
			*parts = append(*parts, r.part())
		}
	}
	t.holds, t.next = r.instant(), r.text()
	for range r.count() {
		t.begun = append(t.begun, r.text())
	}
	for range r.count() {
		t.ends = append(t.ends, r.end())
	}
	for range r.count() {
		c := childEnd{step: r.text()}
		copy(c.child[:], r.take(len(c.child)))
		t.children = append(t.children, c)
	}
	t.unfinished = r.number() == 1
	return t
}

func (r *reader) part() (p api.Part) {
	head := r.take(2)
	mask := int(head[0])
	p.Form, p.Failure = at(r, formNames, head[1]), mask&isFailure != 0
	for _, f := range []struct {
		bit int
		to  *string
	}{{hasStep, &p.Step}, {hasRun, &p.Run}, {hasQueue, &p.Queue}, {hasEvent, &p.Event}} {
		if mask&f.bit != 0 {
			*f.to = r.text()
		}
	}
	if mask&hasAt != 0 {
		p.At = api.Time(r.instant())
	}
	if p.Text = wordsOf(p); mask&hasText != 0 {
		p.Text = r.text()
	}
	return p
}

func (r *reader) end() (e end) {
	head := r.take(3)
	flags := int(head[0])
	e.Renewed, e.Soonest = flags&endRenewed != 0, flags&endSoonest != 0
	e.Cause, e.Ends = at(r, causeNames, head[1]), at(r, endsNames, head[2])
	e.Step, e.Limit, e.Origin = r.text(), r.text(), r.text()
	e.Attempts, e.After, e.Left = r.number(), api.Duration(r.number()), api.Duration(r.number())
	e.At, e.From = api.Time(r.instant()), api.Time(r.instant())
	if flags&endHolds != 0 {
		e.holds = r.instant()
	}
	e.End = named(e.End)
	return e
}
