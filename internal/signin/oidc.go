package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// sessionCookie holds the signed-in user, flowCookie a sign-in in progress.
	sessionCookie, flowCookie = "pgdispatch_session", "pgdispatch_signin"
	// confinedSession is the purpose of the session of a user of some workspaces. Replicas of versions that know only
	// users of all workspaces must not accept it.
	confinedSession = "pgdispatch_session_of_workspaces"
	// maxCookie is the length of a cookie that browsers store, without its attributes.
	maxCookie = 3800
	// sessionLasts is how long a user stays signed in. flowLasts bounds the time at the provider.
	sessionLasts, flowLasts = 8 * time.Hour, 10 * time.Minute
	// providerTimeout bounds one request to the provider.
	providerTimeout = 10 * time.Second
)

// OIDC signs visitors in with OpenID Connect: the authorization code flow with PKCE. Set its fields before use and do
// not change them afterwards.
type OIDC struct {
	Issuer, ClientID, ClientSecret string
	// RedirectURL is the URL of Callback, as browsers see it.
	RedirectURL string
	// Scopes are asked for. They include openid.
	Scopes []string
	// RoleClaim is the claim of the ID token with the visitor's roles or groups: a text or a list of texts. In an object,
	// it is a path such as realm_access.roles.
	RoleClaim string
	Grants    Roles
	// Key signs the cookies. Replicas behind one address must share it.
	Key []byte
	// Path is the path of the pages, which the cookies are sent to.
	Path string
	Log  *slog.Logger

	mu       sync.Mutex
	provider *oidc.Provider // nil before the first use
}

// flow is a sign-in under way.
type flow struct{ State, Nonce, Verifier, To string }

// session is a signed-in user.
type session struct {
	Name string
	Rights
}

// purpose is what the session's cookie is sealed for.
func (s session) purpose() string {
	if s.Confined {
		return confinedSession
	}
	return sessionCookie
}

// Visitor returns the signed-in user.
func (o *OIDC) Visitor(r *http.Request) (Visitor, bool) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return Visitor{}, false
	}
	for _, purpose := range []string{sessionCookie, confinedSession} {
		var s session
		if (sealer{o.Key}).open(purpose, cookie.Value, time.Now(), &s) && s.purpose() == purpose {
			return Visitor{Name: s.Name, Via: "oidc", Rights: s.Rights}, true
		}
	}
	return Visitor{}, false
}

// SignIn sends the browser to the provider, and afterwards back to the page named by the parameter to.
func (o *OIDC) SignIn(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	config, _, err := o.config(ctx)
	if err != nil {
		o.fail(w, r, http.StatusServiceUnavailable, "The identity provider does not answer. Try again in a moment.",
			"Check PGDISPATCH_OIDC_ISSUER, and that this replica reaches the provider.", err)
		return
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		To: o.inside(r.URL.Query().Get("to"))}
	cookie, err := o.sealed(flowCookie, flowCookie, flowLasts, f)
	if err != nil {
		o.fail(w, r, http.StatusInternalServerError, "The sign-in cannot begin.", "Report this bug.", err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)),
		http.StatusSeeOther)
}

// inside returns path if it is one of the pages, so that no link leads elsewhere after the sign-in.
func (o *OIDC) inside(path string) string {
	to, err := url.Parse(path)
	if err != nil || to.Host != "" || to.Scheme != "" || !strings.HasPrefix(to.Path, o.Path) || strings.Contains(path,
		"\\") {
		return o.Path
	}
	return path
}

// Callback ends a sign-in.
func (o *OIDC) Callback(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(flowCookie)
	var f flow
	if err == nil && (!(sealer{o.Key}).open(flowCookie, cookie.Value, time.Now(), &f) ||
		r.URL.Query().Get("state") != f.State) {
		err = errors.New("sign-in has expired, or is of another browser or session key")
	}
	if err != nil {
		o.fail(w, r, http.StatusBadRequest, "This sign-in was not begun here, or took too long.",
			"Sign in again. If that fails, give all replicas the same PGDISPATCH_OIDC_SESSION_KEY, and check that the browser "+
				"opens the host of PGDISPATCH_OIDC_REDIRECT_URL.", err)
		return
	}
	o.clear(w, flowCookie)
	if reason := r.URL.Query().Get("error"); reason != "" {
		o.fail(w, r, http.StatusForbidden, "The identity provider refuses the sign-in.",
			"Check the client, its redirect URL and PGDISPATCH_OIDC_SCOPES at the provider.",
			fmt.Errorf("provider says %.200q: %.200q", reason, r.URL.Query().Get("error_description")))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	who, err := o.exchange(ctx, r.URL.Query().Get("code"), f)
	var roleless *roleless
	switch {
	case errors.As(err, &roleless):
		o.Log.WarnContext(r.Context(), "Refused a user without a role", "who", roleless.who, "found", roleless.found,
			"remedy", "Name one of these roles in PGDISPATCH_AUTH_VIEWERS, PGDISPATCH_AUTH_OPERATORS or "+
				"PGDISPATCH_AUTH_WORKSPACES, or correct PGDISPATCH_OIDC_ROLE_CLAIM or PGDISPATCH_OIDC_SCOPES.")
		o.say(w, http.StatusForbidden, "Your account has no role for these pages. Ask for a group that "+
			"PGDISPATCH_AUTH_VIEWERS, PGDISPATCH_AUTH_OPERATORS or PGDISPATCH_AUTH_WORKSPACES names.")
		return
	case err != nil:
		o.fail(w, r, http.StatusForbidden, "The sign-in is not valid.",
			"Check PGDISPATCH_OIDC_CLIENT_ID, PGDISPATCH_OIDC_CLIENT_SECRET and the clocks of provider and replica.", err)
		return
	}
	cookie, err = o.sealed(sessionCookie, who.purpose(), sessionLasts, who)
	if err != nil {
		o.fail(w, r, http.StatusInternalServerError, "The sign-in cannot be stored.", "Report this bug.", err)
		return
	}
	if len(cookie.Value) > maxCookie {
		o.fail(w, r, http.StatusForbidden, fmt.Sprintf("Your account has roles in %d workspaces, which is more than a "+
			"session can hold. Ask for a role in all workspaces, or in fewer.", len(who.Grants)),
			"Give the user a role in all workspaces, or in fewer, or let a proxy sign users in.",
			fmt.Errorf("session of %d workspaces has %d bytes, at most %d are possible", len(who.Grants), len(cookie.Value),
				maxCookie))
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

// roleless is the error of a user whose roles allow nothing.
type roleless struct{ who, found string }

func (r *roleless) Error() string { return r.who + " has no role" }

// exchange trades the code for an ID token, and verifies it.
func (o *OIDC) exchange(ctx context.Context, code string, f flow) (who session, err error) {
	config, provider, err := o.config(ctx)
	if err != nil {
		return who, err
	}
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return who, fmt.Errorf("exchange code: %w", err)
	}
	raw, is := token.Extra("id_token").(string)
	if !is {
		return who, errors.New("exchange code: the answer has no id_token")
	}
	verified, err := provider.Verifier(&oidc.Config{ClientID: o.ClientID}).Verify(ctx, raw)
	if err != nil {
		return who, fmt.Errorf("verify ID token: %w", err)
	}
	if verified.Nonce != f.Nonce {
		return who, errors.New("verify ID token: it is of another sign-in")
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return who, fmt.Errorf("read ID token: %w", err)
	}
	rights, looks := o.Grants.grant(rolesOf(claimAt(claims, o.RoleClaim)))
	who = session{nameOf(claims, verified.Subject), rights}
	if !looks {
		return who, &roleless{who.Name, found(claims, o.RoleClaim)}
	}
	return who, nil
}

// EndSession returns the address at which the provider ends its own session, or "" if it has none.
func (o *OIDC) EndSession(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	_, provider, err := o.config(ctx)
	var known struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err != nil || provider.Claims(&known) != nil {
		return ""
	}
	address, err := url.Parse(known.EndSession)
	if err != nil || address.Host == "" {
		return ""
	}
	query := address.Query()
	query.Set("client_id", o.ClientID)
	address.RawQuery = query.Encode()
	return address.String()
}

// SignOut ends the session here. The session at the provider stays.
func (o *OIDC) SignOut(w http.ResponseWriter, _ *http.Request) { o.clear(w, sessionCookie) }

// config returns the provider's addresses, which are read at the first use: the provider may be away when the replica
// starts.
func (o *OIDC) config(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil {
		// The provider keeps the context for its keys, so it must outlive this request.
		client := &http.Client{Timeout: providerTimeout}
		provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), client), o.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("find the identity provider: %w", err)
		}
		o.provider = provider
	}
	return &oauth2.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret, RedirectURL: o.RedirectURL,
		Endpoint: o.provider.Endpoint(),
		Scopes:   o.Scopes}, o.provider, nil
}

func (o *OIDC) sealed(name, purpose string, lasts time.Duration, data any) (*http.Cookie, error) {
	text, err := sealer{o.Key}.seal(purpose, time.Now().Add(lasts), data)
	if err != nil {
		return nil, fmt.Errorf("seal cookie: %w", err)
	}
	return o.cookie(name, text, int(lasts.Seconds())), nil
}

func (o *OIDC) clear(w http.ResponseWriter, name string) {
	http.SetCookie(w, o.cookie(name, "", -1))
}

func (o *OIDC) cookie(name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: o.Path, MaxAge: age, HttpOnly: true,
		Secure: strings.HasPrefix(o.RedirectURL, "https://"), SameSite: http.SameSiteLaxMode}
}

// fail tells the user what is wrong, and the operator why and what to do.
func (o *OIDC) fail(w http.ResponseWriter, r *http.Request, code int, what, remedy string, err error) {
	o.Log.WarnContext(r.Context(), "Cannot sign a user in", "error", err, "remedy", remedy)
	o.say(w, code, what)
}

func (o *OIDC) say(w http.ResponseWriter, code int, what string) {
	Page{Heading: "You are not signed in", Text: what, Links: []Link{{"Sign in again", o.Path}}}.Write(w, code)
}

// sealer signs what a cookie says. It does not encrypt it.
type sealer struct{ key []byte }

// sealed is what a cookie says, for one purpose and until it expires.
type sealed struct {
	Purpose string          `json:"purpose"`
	Expires time.Time       `json:"expires"`
	Data    json.RawMessage `json:"data"`
}

func (s sealer) seal(purpose string, expires time.Time, data any) (string, error) {
	content, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(sealed{purpose, expires.UTC(), content})
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	return payload + "." + s.sign(payload), nil
}

// open reports whether cookie was sealed with the key for the purpose and has not expired, and reads its data.
func (s sealer) open(purpose, cookie string, now time.Time, data any) bool {
	payload, signature, _ := strings.Cut(cookie, ".")
	if !hmac.Equal([]byte(signature), []byte(s.sign(payload))) {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return false
	}
	var content sealed
	return json.Unmarshal(text, &content) == nil && content.Purpose == purpose && now.Before(content.Expires) &&
		json.Unmarshal(content.Data, data) == nil
}

func (s sealer) sign(payload string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(payload))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
