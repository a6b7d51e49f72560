package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

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
