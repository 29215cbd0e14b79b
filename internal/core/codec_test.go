package core

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/policy"
)

// recordTypes has one value of every record type, in the order of their tags.
var recordTypes = zeros(lastRecord, (*coder).readRecord)

// zeros returns the zero values of the structs with tags up to last.
func zeros[T any](last byte, read func(*coder, byte) T) (all []T) {
	for tag := byte(1); tag <= last; tag++ {
		c := coder{reading: true, buf: make([]byte, 100)}
		v := reflect.New(reflect.TypeOf(read(&c, tag))).Elem()
		all = append(all, v.Interface().(T))
	}
	return all
}

// filler fills values by reflection, so a field that the codec forgets fails the round trip.
type filler struct {
	t     *rapid.T
	draws func(n int) int // a number from 0 to n-1
	full  bool            // no zero values
}

func (f filler) fill(v reflect.Value, depth int) {
	if !f.full && v.Kind() != reflect.Struct && f.draws(2) == 0 {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[*StepSpec]():
		spec := &StepSpec{Def: int32(f.draws(1000))}
		if f.full || f.draws(2) == 0 {
			f.fill(reflect.ValueOf(spec).Elem(), depth+1)
			spec.Def = -1
		}
		v.Set(reflect.ValueOf(spec))
		return
	case reflect.TypeFor[*policy.Failure]():
		if depth > 3 {
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
		if start, ok := v.Addr().Interface().(*KeyedStart); ok {
			start.Parent, start.Chain = Parent{}, Chain{AfterFailure: start.Chain.AfterFailure}
			start.Keep, start.Signals, start.Updates, start.Within, start.Admitted = nil, nil, nil, nil, false
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.draws(4), 4))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(1 + f.draws(255)))
		}
	case reflect.String:
		v.SetString([]string{"a", "größer", "two words", "\xff\x00"}[f.draws(4)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat([]float64{1, 2, 0.25, 1.1, 1e300}[f.draws(5)])
	case reflect.Uint8:
		v.SetUint(uint64(1 + f.draws(7)))
	case reflect.Uint64:
		v.SetUint(1 + uint64(f.draws(1<<30)))
	case reflect.Uint32:
		v.SetUint([]uint64{1, 5, 1 << 20, 1<<32 - 1}[f.draws(4)])
	case reflect.Int32:
		v.SetInt([]int64{-1, 1, 7, 1 << 30}[f.draws(4)])
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{1, -1, 500, 1 << 40, 1<<63 - 1, -1 << 62}[f.draws(6)])
	default:
		f.t.Fatalf("no filler for %s", v.Type())
	}
}

func (f filler) record(i int) Record {
	v := reflect.New(reflect.TypeOf(recordTypes[i])).Elem()
	f.fill(v, 0)
	return v.Interface().(Record)
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := filler{t: t, draws: func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }}
		f.full = f.draws(3) == 0
		e := Entry{At: policy.At(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)) + Time(f.draws(1e9))}
		for i := range e.Run {
			e.Run[i] = byte(f.draws(256))
		}
		for range f.draws(12) {
			e.Records = append(e.Records, f.record(f.draws(len(recordTypes))))
		}
		checkRoundTrip(t, e)
	})
}

func TestEveryFieldRoundTrips(t *testing.T) {
	for i, r := range recordTypes {
		t.Run(reflect.TypeOf(r).Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f := filler{t: t, full: true, draws: func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }}
				checkRoundTrip(t, Entry{Run: RunID{1}, At: 12345, Records: []Record{f.record(i)}})
			})
		})
	}
}

func checkRoundTrip(t *rapid.T, e Entry) {
	before := AppendEntry([]byte("before"), &e)
	got, rest, err := ReadEntry(append(slices.Clone(before[6:]), "after"...))
	if err != nil {
		t.Fatalf("%v\n%#v", err, e)
	}
	if string(rest) != "after" || !reflect.DeepEqual(got, e) {
		t.Fatalf("read %#v, rest %q\nwrote %#v", got, rest, e)
	}
	history := AppendHistory(nil, &e)
	if len(history) != len(before)-6-16 {
		t.Fatalf("history's encoding has %d bytes, with the run's id %d", len(history), len(before)-6)
	}
	for _, src := range [][]byte{history, before[6:]} {
		if got, rest, err = ReadHistory(e.Run, src); err != nil || len(rest) != 0 || !reflect.DeepEqual(got, e) {
			t.Fatalf("history: %v, rest %q\nread %#v\nwrote %#v", err, rest, got, e)
		}
	}
	// Every cut is an error and no panic.
	for n := range len(history) {
		if _, _, err := ReadHistory(e.Run, history[:n]); !errors.Is(err, ErrBroken) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(history), err)
		}
	}
}

func TestEntrySharesNoMemory(t *testing.T) {
	e := Entry{Run: RunID{1}, Records: []Record{SignalKept{Name: "go", Payload: []byte(`{"a":1}`)}}}
	src := AppendEntry(nil, &e)
	got, _, err := ReadEntry(src)
	if err != nil {
		t.Fatal(err)
	}
	clear(src)
	if !reflect.DeepEqual(got, e) {
		t.Errorf("the entry changed with its source: %v", got)
	}
}

func TestReadHistoryOfAnotherRun(t *testing.T) {
	e := Entry{Run: RunID{1}}
	if _, _, err := ReadHistory(RunID{2}, AppendEntry(nil, &e)); !errors.Is(err, ErrBroken) {
		t.Errorf("an entry of another run: %v", err)
	}
	if _, _, err := ReadEntry(AppendHistory(nil, &e)); !errors.Is(err, ErrBroken) {
		t.Errorf("an entry without a run: %v", err)
	}
}

func TestNewerEntries(t *testing.T) {
	const tagRunHooks = 4
	run := RunID{1}
	for name, src := range map[string][]byte{
		"version": {2 << 4},
		"record":  {1<<4 | 1, 0, 200, 0},
		"field":   {1<<4 | 1, 0, tagRunHooks, 1 << 1},
		"group":   {1<<4 | 1, 0, tagRunHooks, groupMore, 1},
	} {
		if _, _, err := ReadHistory(run, src); !errors.Is(err, ErrNewerEntry) {
			t.Errorf("newer %s: %v", name, err)
		}
	}
}

// born returns a run's id and the instant of its creation.
func born() (RunID, Time) {
	id, err := ParseRunID("019f1b2c-3d4e-7abc-8def-0123456789ab")
	if err != nil {
		panic(err)
	}
	return id, createdAt(id) + 417
}

func TestEntrySizes(t *testing.T) {
	run, at := born()
	second := Time(time.Second.Microseconds())
	for _, test := range []struct {
		name string
		max  int
		r    Record
	}{
		{"created", 34, RunCreated{
			Definition: DefinitionID(run), Workflow: "backup", Input: []byte(`null`), Chain: Chain{Attempt: 1},
		}},
		{"began", 4, StepBegan{Spec: stub(3), Item: -1, Group: NoStep}},
		{"began with timeout", 9, StepBegan{Spec: stub(3), Item: -1, Group: NoStep, ScheduleToClose: at + 300*second}},
		{"ready", 3, AttemptReady{Step: 3}},
		{"started", 6, AttemptStarted{Step: 3, Worker: "w1"}},
		{"succeeded", 3, AttemptEnded{Step: 3}},
		{"retried", 30, AttemptEnded{
			Step: 3, Retry: true, NextAt: at + second,
			Failure: &policy.Failure{Kind: policy.KindError, Message: "exit status 1", Code: 1},
		}},
		{"ended", 8, StepEnded{Step: 3, Phase: StepSucceeded, Output: []byte(`{}`)}},
		{"run ended", 4, RunEnded{Phase: RunSucceeded}},
	} {
		empty := Entry{Run: run, At: at}
		e := Entry{Run: run, At: at, Records: []Record{test.r}}
		n := len(AppendEntry(nil, &e)) - len(AppendEntry(nil, &empty))
		t.Logf("%-20s %d bytes", test.name, n)
		if n > test.max {
			t.Errorf("%s takes %d bytes, at most %d were planned", test.name, n, test.max)
		}
		if head := len(AppendHistory(nil, &empty)); head > 3 {
			t.Errorf("an entry's head takes %d bytes in its history", head)
		}
	}
}

// hasNaN reports whether a value has a number in it that is not equal to itself.
func hasNaN(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Float64:
		return math.IsNaN(v.Float())
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasNaN(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if hasNaN(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if hasNaN(v.Index(i)) {
				return true
			}
		}
	default:
	}
	return false
}

func FuzzReadEntry(f *testing.F) {
	run, at := born()
	for i := range recordTypes {
		fill := filler{full: true, draws: func(n int) int { return i % n }}
		f.Add(AppendEntry(nil, &Entry{Run: run, At: at, Records: []Record{fill.record(i), recordTypes[i]}}))
	}
	f.Add([]byte{1<<4 | headerCount, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, src []byte) {
		e, rest, err := ReadEntry(src)
		if err != nil {
			if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrNewerEntry) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasSuffix(src, rest) {
			t.Fatalf("rest %x of %x", rest, src)
		}
		text := AppendEntry(nil, &e)
		again, rest, err := ReadEntry(text)
		same := reflect.DeepEqual(again, e) || hasNaN(reflect.ValueOf(e)) && bytes.Equal(AppendEntry(nil, &again), text)
		if err != nil || len(rest) != 0 || !same {
			t.Fatalf("%v, rest %x\nread  %#v\nagain %#v", err, rest, e, again)
		}
	})
}

// oneStep returns the entries that a run of one step journals.
func oneStep() []Entry {
	run, at := born()
	return []Entry{
		{Run: run, At: at, Records: []Record{
			RunCreated{
				Definition: DefinitionID(run), Workflow: "backup", Input: []byte(`{"n":1}`), Chain: Chain{Attempt: 1},
			},
			StepBegan{Spec: stub(0), Item: -1, Group: NoStep},
			AttemptStarted{Step: 0, Worker: "w1"},
		}},
		{Run: run, At: at + 900, Records: []Record{
			AttemptEnded{Step: 0},
			StepEnded{Step: 0, Phase: StepSucceeded, Output: []byte(`{"ok":true}`)},
			RunClosing{Phase: RunSucceeded},
			RunEnded{Phase: RunSucceeded},
		}},
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	entries := oneStep()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = dst[:0]
		for i := range entries {
			dst = AppendEntry(dst, &entries[i])
		}
	}
	b.ReportMetric(float64(len(dst)), "bytes/run")
}

func BenchmarkReadEntry(b *testing.B) {
	entries := oneStep()
	var src []byte
	for i := range entries {
		src = AppendEntry(src, &entries[i])
	}
	b.ReportAllocs()
	for b.Loop() {
		for rest := src; len(rest) > 0; {
			var err error
			if _, rest, err = ReadEntry(rest); err != nil {
				b.Fatal(err)
			}
		}
	}
}
