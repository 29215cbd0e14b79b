package history

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// eventLog has the events whose ids are final. Those of a run that rests are bytes: a hundred thousand of them would
// otherwise be a million objects that each collection of garbage has to look at.
type eventLog struct {
	packed []byte // the first events, each behind its length
	inside int    // how many these are
	places []int  // where each event of those begins whose number is a multiple of placeEvery
	loose  []*Event
}

// placeEvery is the distance between events whose place is known: a page does not read what is before it.
const placeEvery = 256

func (l *eventLog) len() int { return l.inside + len(l.loose) }

// add adds an event and gives it its id.
func (l *eventLog) add(e *Event) {
	e.EventId = int64(l.len()) + 1
	e.TaskId = e.EventId
	l.loose = append(l.loose, e)
}

// pack makes bytes of all events. One that cannot be written stays, and those behind it.
func (l *eventLog) pack() {
	if l.inside == 0 { // many runs rest only once: no room for more
		size := 0
		for _, e := range l.loose {
			size += protowire.SizeBytes(proto.Size(e))
		}
		l.packed = make([]byte, 0, size)
	}
	for i, e := range l.loose {
		at := len(l.packed)
		b := protowire.AppendVarint(l.packed, uint64(proto.Size(e)))
		b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, e)
		if err != nil {
			l.loose = slices.Clone(l.loose[i:])
			return
		}
		if l.packed = b; l.inside%placeEvery == 0 {
			l.places = append(l.places, at)
		}
		l.inside++
	}
	l.loose = nil
}

// behind returns the events without the first n, of which there are as many, but no more than most.
func (l *eventLog) behind(n, most int) []*Event {
	end := l.len()
	if most < end-n {
		end = n + most
	}
	if n >= l.inside {
		return l.loose[n-l.inside : end-l.inside : end-l.inside]
	}
	out := make([]*Event, 0, end-n+2) // a task has two more
	first := n / placeEvery
	rest := l.packed[l.places[first]:]
	for i := first * placeEvery; i < min(l.inside, end); i++ {
		raw, used := protowire.ConsumeBytes(rest)
		rest = rest[used:]
		if i < n {
			continue
		}
		e := &Event{}
		_ = proto.Unmarshal(raw, e) // it was marshalled here
		out = append(out, e)
	}
	return append(out, l.loose[:max(end-l.inside, 0)]...)
}
