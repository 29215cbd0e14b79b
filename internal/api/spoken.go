package api

import "strings"

const spokenBy = "pawl: "

// Spoken returns an error whose text begins with the name of the library, as callers in Go get it. Nil stays nil.
func Spoken(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), spokenBy) {
		return err
	}
	return &spoken{err}
}

type spoken struct{ error }

func (e *spoken) Error() string { return spokenBy + e.error.Error() }
func (e *spoken) Unwrap() error { return e.error }
