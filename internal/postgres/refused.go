package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// unconnected is an error of a connection that begins with its cause. pgx says the cause last, and once for each
// address and way to encrypt that it has tried.
type unconnected struct {
	error
	text string
}

func (u unconnected) Error() string { return u.text }
func (u unconnected) Unwrap() error { return u.error }

var (
	// tried matches what pgx says of one try: the address, the host's name, and the cause.
	tried = regexp.MustCompile(`^(\S+) \((.*?)\): (.*)$`)
	// layers are the words of pgx and package net before a cause.
	layers = regexp.MustCompile(`^((dial|server|tls|hostname resolving) error: |dial \S+ \S+: |connect: )+`)
)

// causeFirst puts the cause of a failed connection before everything else.
func causeFirst(err error) error {
	var failed *pgconn.ConnectError
	var done unconnected
	if !errors.As(err, &failed) || errors.As(err, &done) {
		return err
	}
	var causes, places []string
	for line := range strings.Lines(failed.Unwrap().Error()) {
		cause := strings.TrimSpace(line)
		if parts := tried.FindStringSubmatch(cause); parts != nil {
			cause = parts[3]
			if place := fmt.Sprintf("%s (%s)", parts[1], parts[2]); !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
		if cause = layers.ReplaceAllString(cause, ""); !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	if len(places) == 0 {
		places = []string{"Postgres"}
	}
	text := fmt.Sprintf("%s: cannot connect to %s as %q, database %q", strings.Join(causes, "; "),
		strings.Join(places, ", "), failed.Config.User, failed.Config.Database)
	doing := strings.ReplaceAll(strings.ReplaceAll(err.Error(), failed.Error(), ""), ": : ", ": ")
	if doing = strings.Trim(doing, ": "); doing != "" && doing != "connect to Postgres" {
		text += ": " + doing
	}
	return unconnected{err, text}
}
