package service

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestStartsAreWhole checks that the engine is asked for whatever a start says.
func TestStartsAreWhole(t *testing.T) {
	plain, err := Start(journal.Definition{}, core.Start{}, &api.StartRequest{Deadline: 1})
	if err != nil {
		t.Fatal(err)
	}
	for field, r := range golden.Each[api.StartRequest]() {
		switch field {
		case "Definition", "Input": // the workflow has made something of them
			continue
		case "Zone":
			r.Zone = "Europe/Berlin"
		case "Deadline":
		default:
			r.Deadline = 1
		}
		got, err := Start(journal.Definition{}, core.Start{}, &r)
		if err != nil || reflect.DeepEqual(got, plain) {
			t.Errorf("a start with %s is as one without it: %v", field, err)
		}
	}
}

// TestDeadlineOfAStart checks that the deadline of a start takes the place of the one that its workflow has.
func TestDeadlineOfAStart(t *testing.T) {
	own := core.Start{ExecutionAt: core.RunLimit{At: 5, Origin: "the workflow"}}
	for deadline, want := range map[api.Time]core.RunLimit{
		0: own.ExecutionAt, 4: {At: 4, Origin: "start"}, 6: {At: 6, Origin: "start"},
	} {
		got, err := Start(journal.Definition{}, own, &api.StartRequest{Deadline: deadline})
		if err != nil || got.ExecutionAt != want {
			t.Errorf("with the deadline %d: %+v, %v", deadline, got.ExecutionAt, err)
		}
	}
}

// TestStartsReadOnce checks that only the first start of a definition reads it.
func TestStartsReadOnce(t *testing.T) {
	b := newBed(t)
	reads := 0
	b.run = NewEmbedded(b.engine, func(d journal.Definition) (*Prepared, error) { reads++; return readFlow(d) }, now)
	b.start(api.StartRequest{})
	b.start(api.StartRequest{})
	if reads != 1 {
		t.Errorf("the definition was read %d times", reads)
	}
}
