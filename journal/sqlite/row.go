package sqlite

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// manyRows is how many rows one statement writes where there are that many. A statement that writes one row spends more
// on its own beginning and end, and on finding its place in the tree, than on the row.
const manyRows = 16

// rowStmt writes rows into a table, many at once or one.
type rowStmt struct {
	one, many *sqlite.Stmt
	columns   int
}

func (r *rowStmt) prepare(conn *conn, into string, columns int) (err error) {
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	r.columns = columns
	if r.one, err = conn.stmt(into + " VALUES " + row); err != nil {
		return err
	}
	r.many, err = conn.stmt(into + " VALUES " + row + strings.Repeat(", "+row, manyRows-1))
	return err
}

// writeRows writes rows whose values bind binds, the first of a row to the parameter after at.
func writeRows[T any](r *rowStmt, rows []T, bind func(s *sqlite.Stmt, at int, row *T) error) error {
	for len(rows) > 0 {
		s, n := r.one, 1
		if len(rows) >= manyRows {
			s, n = r.many, manyRows
		}
		for i := range n {
			if err := bind(s, i*r.columns, &rows[i]); err != nil {
				return err
			}
		}
		if err := do(s); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
