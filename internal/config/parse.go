package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// minTokenLength makes tokens hard to guess.
	minTokenLength = 16
	// maxCallbackURL is the longest callback URL that Temporal accepts, in bytes.
	maxCallbackURL = 1000
)

func parseDatabaseURL(text string, into *string) error {
	*into = text
	if _, err := pgx.ParseConfig(text); err != nil {
		return fmt.Errorf("%w: it must look like postgres://user@host:5432/database", postgres.Redact(err))
	}
	return nil
}

func parseInt(text string, lowest, highest int, into *int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < lowest || n > highest {
		return fmt.Errorf("it must be a whole number from %d to %d", lowest, highest)
	}
	*into = n
	return nil
}

func parseDuration(text string, lowest, highest time.Duration, into *time.Duration) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < lowest || d > highest {
		return fmt.Errorf("it must be a duration from %s to %s, such as 500ms, 30s or 5m", lowest, highest)
	}
	*into = d
	return nil
}

func parseSwitch(text string, into *bool) error {
	switch strings.ToLower(text) {
	case "on", "true":
		*into = true
	case "off", "false":
		*into = false
	default:
		return errors.New("it must be on or off")
	}
	return nil
}

func parseDurability(text string, into *Durability) error {
	switch d := Durability(strings.ToLower(text)); d {
	case DurableClaims, DurableAll, DurableNone:
		*into = d
		return nil
	}
	return errors.New("it must be claims, all or none")
}

func parseLevel(text string, into *slog.Level) error {
	switch strings.ToLower(text) {
	case "debug", "info", "warn", "error":
		return into.UnmarshalText([]byte(text))
	}
	return errors.New("it must be debug, info, warn or error")
}

func parseCallbackURL(text string, into *string) error {
	if text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" ||
			len(text) > maxCallbackURL {
			return fmt.Errorf("it must be a URL such as https://pgdispatch.example.com/callbacks, without a password, of at "+
				"most %d characters", maxCallbackURL)
		}
	}
	*into = text
	return nil
}

// checkCallbacks requires that both the callback URL and address are set, or neither.
func (c Config) checkCallbacks() error {
	switch {
	case c.CallbackURL != "" && c.CallbackAddr == "":
		return errors.New("PGDISPATCH_CALLBACK_URL is set without PGDISPATCH_CALLBACK_ADDR: set both, or neither")
	case c.CallbackURL == "" && c.CallbackAddr != "":
		return errors.New("PGDISPATCH_CALLBACK_ADDR is set without PGDISPATCH_CALLBACK_URL: set both, or neither")
	}
	return nil
}

func parseAddress(text string, into *string) error {
	if text != "" {
		if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
			return errors.New("it must be host:port, such as 127.0.0.1:9464 or :9464; port 0 selects a free port")
		}
	}
	*into = text
	return nil
}

func parseToken(text string, into *string) error {
	if text != "" && len(text) < minTokenLength {
		return fmt.Errorf("it must have at least %d characters", minTokenLength)
	}
	*into = text
	return nil
}

// checkTokens refuses one token for both purposes, because the view token is shared more freely.
func (c Config) checkTokens() error {
	if c.ViewToken != "" && c.ViewToken == c.AdminToken {
		return errors.New("configuration: PGDISPATCH_VIEW_TOKEN equals PGDISPATCH_ADMIN_TOKEN and would allow changes: " +
			"choose a different token")
	}
	return nil
}

// checkAdmin refuses a certificate without its key, and the reverse.
func (c Config) checkAdmin() error {
	if (c.AdminCertFile == "") != (c.AdminKeyFile == "") {
		return errors.New("configuration: set PGDISPATCH_ADMIN_CERT_FILE and PGDISPATCH_ADMIN_KEY_FILE, or neither")
	}
	return nil
}

// parseBase accepts paths that need no escape in links, cookies or routes.
func parseBase(text string, into *string) error {
	*into = text
	if text != "" && (path.Clean(text) != text || !validBase.MatchString(text)) {
		return errors.New("it must be a path such as /tools or /tools/pgdispatch, of letters, digits and -._~")
	}
	return nil
}

var validBase = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

func parseUIURL(text string, into *string) error {
	if text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
			u.Fragment != "" {
			return errors.New(
				"it must be a URL such as http://localhost:8233 or https://cloud.temporal.io, with no password and no query")
		}
	}
	*into = text
	return nil
}
