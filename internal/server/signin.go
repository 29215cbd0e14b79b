package server

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

// SignIn is an issuer at which people sign in, with the browser that shows the page.
type SignIn interface {
	// Begin returns the address of the sign-in, and the data that the browser keeps until it comes back. After that it
	// goes to the path. Error: CodeStalled.
	Begin(ctx context.Context, to string) (address, kept string, err error)
	// Finish returns who has signed in, from the browser's data and the issuer's answer, and the next path of the
	// browser. Errors: CodeNoToken, CodeForbidden, CodeStalled.
	Finish(ctx context.Context, kept string, answer url.Values) (who api.Token, to string, err error)
	// Name returns the name of the issuer for people.
	Name() string
	// Secure reports whether browsers reach the server with encryption.
	Secure() bool
}

// beginWithin is how long somebody may take to sign in.
const beginWithin = 10 * time.Minute

// signWithin is how long the issuer and the storage may take to let somebody in.
const signWithin = 20 * time.Second

// desk is where people sign in and out with a browser.
type desk struct {
	issuer SignIn
	access Access
	lasts  time.Duration // how long a session lasts
	log    *slog.Logger
}

// cookie returns a cookie that no script reads. The cookie of a session is sent only with requests of the page; that of
// a sign-in has to come back with the answer of the issuer, which is another site.
func (d *desk) cookie(name, value string, site http.SameSite, lasts time.Duration) *http.Cookie {
	if d.issuer.Secure() {
		name = "__Host-" + name // no other host of the domain can set it
	}
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: d.issuer.Secure(), SameSite: site,
		MaxAge: int(lasts.Seconds()),
	}
	if value == "" {
		c.MaxAge = -1 // the browser forgets it
	}
	return c
}

func (d *desk) session(value string) *http.Cookie {
	return d.cookie("pawl", value, http.SameSiteStrictMode, d.lasts)
}

func (d *desk) begun(value string) *http.Cookie {
	return d.cookie("pawl-login", value, http.SameSiteLaxMode, beginWithin)
}

// shown returns the credentials of a request: the token in its header, or else that of a session. A browser sends a
// session's cookie automatically, so it counts only if the request comes from the page of this server.
func (d *desk) shown(r *http.Request) string {
	if text := bearerOf(r); text != "" || d == nil || r.Header.Get("Authorization") != "" {
		return text
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // browsers that do not tell are stopped by SameSite
	default:
		return ""
	}
	kept, err := r.Cookie(d.session("").Name)
	if err != nil {
		return ""
	}
	return kept.Value
}

// routes adds what a browser asks for when somebody signs in or out.
func (d *desk) routes(routes Routes) {
	routes.Handle(Anyone, "GET /login", func(w http.ResponseWriter, r *http.Request) {
		address, kept, err := d.issuer.Begin(r.Context(), r.URL.Query().Get("to"))
		if err != nil {
			d.notSignedIn(w, r, err)
			return
		}
		http.SetCookie(w, d.begun(kept))
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, r, address, http.StatusSeeOther)
	})
	routes.Handle(Anyone, "GET /login/callback", d.finish)
	routes.Handle(Anyone, "POST /logout", d.signOut)
}

// finish signs in a person who comes back from the issuer.
func (d *desk) finish(w http.ResponseWriter, r *http.Request) {
	kept := ""
	if c, err := r.Cookie(d.begun("").Name); err == nil {
		kept = c.Value
	}
	http.SetCookie(w, d.begun("")) // an answer counts once
	ctx, cancel := context.WithTimeout(r.Context(), signWithin)
	defer cancel()
	who, to, err := d.issuer.Finish(ctx, kept, r.URL.Query())
	if err == nil {
		who, err = d.access.SignIn(ctx, who, d.lasts)
	}
	if err != nil {
		if api.CodeOf(err) == api.CodeForbidden {
			d.record(r, who, http.StatusForbidden)
		}
		d.notSignedIn(w, r, err)
		return
	}
	d.record(r, who, http.StatusSeeOther)
	http.SetCookie(w, d.session(who.Token))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// signOut ends a session.
func (d *desk) signOut(w http.ResponseWriter, r *http.Request) {
	shown, err := d.access.Authenticate(r.Context(), d.shown(r))
	if err == nil && shown.Token.Session {
		if err = d.access.RevokeToken(r.Context(), shown.Token.ID); err == nil {
			d.record(r, shown.Token, http.StatusNoContent)
		}
	}
	if err != nil && api.CodeOf(err) != api.CodeNoToken {
		answer(w, httpapi.ProblemOf(err)) // the browser keeps the session, which counts on
		return
	}
	http.SetCookie(w, d.session(""))
	w.WriteHeader(http.StatusNoContent)
}

// record writes to the audit log who has signed in or out, or was refused.
func (d *desk) record(r *http.Request, who api.Token, status int) {
	d.access.Record(api.Audited{
		Actor: who.Name, Token: who.ID, Namespace: who.Namespace, Method: r.Method, Path: r.URL.Path, Status: status,
		From: r.RemoteAddr,
	})
}

var notSignedInPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Not signed in · Pawl</title>
<h1>You are not signed in</h1>
<p>{{.Message}}</p>
{{with .Hint}}<p>What to do: {{.}}.</p>{{end}}
<p><a href="/login">Sign in again</a> · <a href="/">Back to the page</a></p>
`))

// notSignedIn explains to a person why the page is not shown. It is answered to a browser, not to a program.
func (d *desk) notSignedIn(w http.ResponseWriter, r *http.Request, err error) {
	var e *api.Error
	if !errors.As(err, &e) {
		e = &api.Error{Code: api.CodeInternal, Message: err.Error()}
	}
	d.log.Warn("somebody has not signed in", "code", string(e.Code), "reason", e.Message, "from", r.RemoteAddr)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(e.Code.HTTPStatus())
	_ = notSignedInPage.Execute(w, e) // a browser that has gone needs no page
}
