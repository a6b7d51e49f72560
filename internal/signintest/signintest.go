// Package signintest is a small OpenID Connect provider for tests.
package signintest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
)

// ClientID and ClientSecret are of the only client.
const ClientID, ClientSecret = "web", "secret"

// Provider is an OpenID Connect provider on loopback, whose users need no password.
type Provider struct {
	*httptest.Server
	key, another *rsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any
	forged bool
	asked  url.Values // of the last authorization request
}

// New starts a provider. The caller must close it.
func New() (*Provider, error) {
	p := &Provider{claims: map[string]any{}}
	for _, key := range []**rsa.PrivateKey{&p.key, &p.another} {
		var err error
		if *key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
			"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "end_session_endpoint": p.URL + "/logout",
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	return p, nil
}

// Claim sets the claims of the next ID tokens. A nil claim is omitted.
func (p *Provider) Claim(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// Scopes returns what was asked for last.
func (p *Provider) Scopes() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked.Get("scope")
}

// Forge signs the next ID tokens with another key than the provider publishes.
func (p *Provider) Forge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forged = true
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = r.URL.Query()
	http.Redirect(w, r, p.asked.Get("redirect_uri")+"?code=the-code&state="+p.asked.Get("state"),
		http.StatusSeeOther)
}

// token checks the code, the secret and the PKCE verifier, and issues an ID token.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != ClientID || secret != ClientSecret || r.FormValue("code") != "the-code" ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != p.asked.Get("code_challenge") {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "sub": "subject-1", "nonce": p.asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	for name, value := range p.claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	text, err := p.sign(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": text})
}

func (p *Provider) sign(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("write claims: %w", err)
	}
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"1"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(text)
	key := p.key
	if p.forged {
		key = p.another
	}
	sum := sha256.Sum256([]byte(payload))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign claims: %w", err)
	}
	return payload + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // fails only if the client is gone
}
