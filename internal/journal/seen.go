package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Seen is what is known of a database. Within a generation nothing of it ever becomes smaller, so a database that shows
// less is not the one that was seen.
type Seen struct {
	Database   string     `json:"database"`   // its id, which a copy shares; empty: the storage has none
	Generation Generation `json:"generation"` // the last one that an operator has accepted
	// Primaries has who kept the data last, by the name of the store; the first one has none. Empty: it is a file.
	Primaries  map[string]Primary `json:"primaries,omitempty"`
	Partitions map[int]Stand      `json:"partitions"` // those that ever had an owner
}

// Generation is how often an operator has accepted a database that went back. The mark tells two databases apart that
// were accepted as often as each other. The zero value was never accepted.
type Generation struct {
	Number uint64 `json:"number"`
	Mark   string `json:"mark,omitempty"`
}

// Next returns the generation that follows.
func (g Generation) Next() Generation { return Generation{g.Number + 1, rand.Text()[:12]} }

// String writes a generation as it is stored. The zero value is empty.
func (g Generation) String() string {
	if g == (Generation{}) {
		return ""
	}
	return fmt.Sprintf("%d %s", g.Number, g.Mark)
}

// ParseGeneration reads what String has written.
func ParseGeneration(text string) (Generation, error) {
	if text == "" {
		return Generation{}, nil
	}
	number, mark, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return Generation{}, fmt.Errorf("%w: the generation %q is not a number and a mark", ErrNoJournal, text)
	}
	return Generation{n, mark}, nil
}

// Primary is a server that takes writes, with its timeline, which grows whenever a standby becomes the primary.
type Primary struct {
	System   string `json:"system"`
	Timeline uint64 `json:"timeline"`
}

// Stand is how far a partition has come.
type Stand struct {
	Epoch uint64 `json:"epoch"`
	Last  uint64 `json:"last"` // sequence number of the last batch
}

// Behind reports whether one stand lacks something of another one.
func (s Stand) Behind(other Stand) bool { return s.Epoch < other.Epoch || s.Last < other.Last }

// BehindError says what a database lacks. It is ErrBehind.
type BehindError struct {
	What string // such as "partition 7: batch 812, 1,034 was seen"
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("this database went back (%s): it is another primary or a restored copy; "+
		"stop all nodes, then pawl cluster accept", e.What)
}

// Unwrap makes errors.Is(err, ErrBehind) true.
func (e *BehindError) Unwrap() error { return ErrBehind }

// Check returns a *BehindError if a database, as it was found, lacks something of what was seen. A partition that found
// does not have is not compared.
func (s *Seen) Check(found *Seen) error {
	if s.Database != "" && found.Database != "" && s.Database != found.Database {
		return &BehindError{fmt.Sprintf("it has the id %s, %s was seen", found.Database, s.Database)}
	}
	switch was, is := s.Generation, found.Generation; {
	case is.Number > was.Number:
		return nil // an operator has accepted it
	case is.Number < was.Number:
		return &BehindError{fmt.Sprintf("generation %d, %d was seen", is.Number, was.Number)}
	case is.Mark != was.Mark:
		return &BehindError{fmt.Sprintf("it was accepted as generation %d, and so was another one", is.Number)}
	}
	for _, n := range slices.Sorted(maps.Keys(s.Partitions)) {
		if is, ok := found.Partitions[n]; ok {
			if err := s.CheckStand(n, is); err != nil {
				return err
			}
		}
	}
	for _, store := range slices.Sorted(maps.Keys(found.Primaries)) {
		was, is := s.Primaries[store], found.Primaries[store]
		if was.System == is.System && is.Timeline < was.Timeline {
			return &BehindError{fmt.Sprintf("timeline %d, %d was seen", is.Timeline, was.Timeline)}
		}
	}
	return nil
}

// CheckStand compares where a partition stands in the same generation.
func (s *Seen) CheckStand(n int, is Stand) error {
	switch was := s.Partitions[n]; {
	case is.Last < was.Last:
		return &BehindError{fmt.Sprintf("partition %d: batch %s, %s was seen", n, grouped(is.Last), grouped(was.Last))}
	case is.Epoch < was.Epoch:
		return &BehindError{fmt.Sprintf("partition %d: owner %s, %s was seen", n, grouped(is.Epoch),
			grouped(was.Epoch))}
	}
	return nil
}

// grouped writes a number with a comma before each three digits.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Learn adds what others have seen of the same database, and reports whether there was anything new. What belongs to an
// older generation does not count.
func (s *Seen) Learn(other *Seen) (news bool) {
	switch {
	case s.Database != "" && other.Database != "" && s.Database != other.Database,
		other.Generation.Number < s.Generation.Number:
		return false
	case other.Generation.Number > s.Generation.Number:
		database := cmp.Or(other.Database, s.Database)
		*s = other.Clone()
		s.Database = database
		return true
	case other.Generation.Mark != s.Generation.Mark:
		return false
	}
	if s.Database == "" && other.Database != "" {
		s.Database, news = other.Database, true
	}
	for n, stand := range other.Partitions {
		news = s.Note(n, stand) || news
	}
	for store, is := range other.Primaries {
		was := s.Primaries[store]
		if was.System == "" || was.System == is.System && was.Timeline < is.Timeline {
			s.keep(store, is)
			news = true
		}
	}
	return news
}

// Note adds where a partition stands, and reports whether that is news.
func (s *Seen) Note(n int, is Stand) (news bool) {
	was := s.Partitions[n]
	is = Stand{max(was.Epoch, is.Epoch), max(was.Last, is.Last)}
	if is == was {
		return false
	}
	if s.Partitions == nil {
		s.Partitions = map[int]Stand{}
	}
	s.Partitions[n] = is
	return true
}

func (s *Seen) keep(store string, is Primary) {
	if s.Primaries == nil {
		s.Primaries = map[string]Primary{}
	}
	s.Primaries[store] = is
}

// Found adds what a database shows that was checked. Unlike others, it may tell of another server: one to which the
// database was moved.
//
// It says nothing new of the partitions: what their owners say of them counts.
func (s *Seen) Found(found *Seen) {
	if found.Generation.Number > s.Generation.Number {
		s.Learn(found)
		return
	}
	s.Database = cmp.Or(s.Database, found.Database)
	for store, is := range found.Primaries {
		s.keep(store, is)
	}
}

// Clone returns a copy that shares nothing.
func (s *Seen) Clone() Seen {
	out := *s
	out.Primaries, out.Partitions = maps.Clone(s.Primaries), maps.Clone(s.Partitions)
	return out
}

// Lost lists what a database gives up of what was seen, for people.
func (s *Seen) Lost(found *Seen) (lines []string) {
	for _, n := range slices.Sorted(maps.Keys(s.Partitions)) {
		if was, is := s.Partitions[n], found.Partitions[n]; is.Last < was.Last {
			lines = append(lines, fmt.Sprintf("partition %d: batches %s to %s", n, grouped(is.Last+1),
				grouped(was.Last)))
		}
	}
	return lines
}

// seenVersion is the version of the form in which it is written to files, and told to other nodes.
const seenVersion = 1

// Encode writes what was seen, for a file or another node.
func (s *Seen) Encode() ([]byte, error) { return EncodeDocument(seenVersion, s) }

// DecodeSeen reads what Encode has written.
func DecodeSeen(text []byte) (s Seen, err error) {
	err = DecodeDocument(text, seenVersion, &s)
	return s, err
}

// Remembering is a storage that knows what was seen of it.
type Remembering interface {
	// Seen returns what this process has seen of the database, and what others have told it.
	Seen() Seen
	// Learn adds what others have seen. From now on the partitions that the database lacks something of are refused.
	Learn(others ...Seen)
	// Verify reads the database and compares. Errors: ErrBehind.
	Verify(ctx context.Context) error
	// Stands returns what the database shows, without comparing.
	Stands(ctx context.Context) (Seen, error)
	// Accept makes what the database has the truth from now on, in a new generation: what was seen before is forgotten.
	Accept(ctx context.Context) (Generation, error)
}
