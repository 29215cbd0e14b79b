package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	calling "github.com/pawl-dev/pawl/internal/caller"
)

// Callers keeps what other commands of this user give for the steps of their runs.
type Callers interface {
	// Keep keeps a caller, and tells its name. Errors: CodeInvalid.
	Keep(ctx context.Context, f calling.Form) (calling.Told, error)
	// Knows reports whether a caller of that name is kept.
	Knows(name string) bool
}

// callersRoute takes the environment of a command. It is not in the description of the API: only commands on this
// machine call it, through the socket beside the database.
func callersRoute(s *Server, r Routes) {
	r.Handle(api.RoleOperate, "POST "+httpapi.CallersPath, func(w http.ResponseWriter, r *http.Request) {
		told := calling.Told{Server: s.cfg.Guarded || s.cfg.Flows != nil}
		if s.cfg.Callers != nil && throughSocket(r) {
			var f calling.Form
			err := json.NewDecoder(r.Body).Decode(&f)
			if err == nil {
				told, err = s.cfg.Callers.Keep(r.Context(), f)
			} else {
				err = &api.Error{Code: api.CodeInvalid, Message: "what the command gives cannot be read", Err: err}
			}
			if err != nil {
				answer(w, httpapi.ProblemOf(err))
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(told) // a caller that has gone needs no answer
	})
}

// ofCaller puts the caller that a request names into its context.
func ofCaller(s *Server, r *http.Request) (*http.Request, *httpapi.Problem) {
	name := r.Header.Get(calling.Header)
	if name == "" || s.cfg.Callers == nil || !throughSocket(r) {
		return r, nil
	}
	if !s.cfg.Callers.Knows(name) {
		return r, httpapi.ProblemOf(errUnknownCaller)
	}
	return r.WithContext(calling.With(r.Context(), name)), nil
}

var errUnknownCaller = &api.Error{
	Code: api.CodeConflict, Err: errors.New("the process that has the database does not know this command's " +
		"environment: give the command again"),
}
