package signin

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// provider is a small OpenID Connect provider without passwords.
type provider struct {
	*httptest.Server
	t      *testing.T
	key    *rsa.PrivateKey
	claims map[string]any // of the next ID token; nil claims are omitted
	asked  url.Values     // of the last authorization request
	wrong  bool           // it signs with another key than it publishes
}

func newProvider(t *testing.T) *provider {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &provider{t: t, key: key, claims: map[string]any{}}
	mux := nethttp.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		p.answer(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL +
			"/token",
			"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		p.answer(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(p.key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(p.key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET /authorize", func(w nethttp.ResponseWriter, r *nethttp.Request) {
		p.asked = r.URL.Query()
		nethttp.Redirect(w, r, p.asked.Get("redirect_uri")+"?code=the-code&state="+p.asked.Get("state"),
			nethttp.StatusSeeOther)
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// token checks the code, the secret and the PKCE verifier, and issues an ID token.
func (p *provider) token(w nethttp.ResponseWriter, r *nethttp.Request) {
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != "web" || secret != "secret" || r.FormValue("code") != "the-code" ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != p.asked.Get("code_challenge") {
		nethttp.Error(w, "no", nethttp.StatusUnauthorized)
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": "web", "sub": "subject-1", "nonce": p.asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	for name, value := range p.claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	p.answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": p.sign(claims)})
}

func (p *provider) sign(claims map[string]any) string {
	part := func(value any) string {
		text, err := json.Marshal(value)
		require.NoError(p.t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	payload := part(map[string]any{"alg": "RS256", "kid": "1"}) + "." + part(claims)
	key := p.key
	if p.wrong {
		var err error
		key, err = rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(p.t, err)
	}
	sum := sha256.Sum256([]byte(payload))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	require.NoError(p.t, err)
	return payload + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (p *provider) answer(w nethttp.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	require.NoError(p.t, json.NewEncoder(w).Encode(value))
}
