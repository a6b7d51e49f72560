package telemetry

import (
	"net/http"

	"github.com/pgdispatch/pgdispatch/internal/signin"
)

// visitor returns who sends a request without a token, according to a trusted source.
func (a *Admin) visitor(r *http.Request) (signin.Visitor, bool) {
	for _, visitor := range a.Visitors {
		if v, is := visitor(r); is {
			return v, true
		}
	}
	return signin.Visitor{}, false
}

// signIn registers the paths to sign in and out.
func (a *Admin) signIn(mux *http.ServeMux) {
	if a.SignIn != nil {
		mux.HandleFunc("GET "+a.PagesPath+"signin", a.SignIn.SignIn)
		mux.HandleFunc("GET "+a.PagesPath+"signin/callback", a.SignIn.Callback)
	}
	mux.Handle("POST "+a.PagesPath+"signout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(a.signOut)))
}

// signOut ends a session, or makes the browser forget the token: a refusal is the only way.
func (a *Admin) signOut(w http.ResponseWriter, r *http.Request) {
	if a.SignIn != nil {
		a.SignIn.SignOut(w, r)
	}
	code := http.StatusOK
	if _, _, basic := r.BasicAuth(); basic {
		w.Header().Set("WWW-Authenticate", realm)
		code = http.StatusUnauthorized
	}
	signin.Page{Heading: "You are signed out", Text: "You may still be signed in at your identity provider.",
		Link: "Sign in again", To: a.PagesPath}.Write(w, code)
}
