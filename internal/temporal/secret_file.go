package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// secretInterval is how long a secret that was read is used before its file is read again.
const secretInterval = 2 * time.Second

// secretFile is a secret that is reread while it is used, so that it can be rotated.
type secretFile struct {
	path     string
	variable string // that names the file
	changed  string // the log message for another secret in the file
	unread   string // the log message for a file that cannot be read anew
	log      *slog.Logger

	mu         sync.Mutex
	secret     string
	readAt     time.Time
	complained bool
}

// open reads the secret for the first time.
func (f *secretFile) open() (err error) {
	f.secret, err = readSecret(f.path, f.variable)
	f.readAt = time.Now()
	return err
}

// get returns the secret. If its file cannot be read, it returns the last one.
func (f *secretFile) get(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.readAt) < secretInterval {
		return f.secret, nil
	}
	f.readAt = time.Now()
	secret, err := readSecret(f.path, f.variable)
	switch {
	case err != nil && !f.complained:
		f.log.WarnContext(ctx, f.unread, "error", err)
	case err == nil && secret != f.secret:
		f.log.InfoContext(ctx, f.changed)
		f.secret = secret
	}
	f.complained = err != nil
	return f.secret, nil
}

func readSecret(path, variable string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user chooses the path
	secret := strings.TrimSpace(string(text))
	if err == nil && secret == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("%s is %q: %w", variable, path, err)
	}
	return secret, nil
}
