package temporal

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
)

const (
	apiKeyVariable = "TEMPORAL_API_KEY"
	// apiKeyFileVariable names a file with the API key. TEMPORAL_API_KEY overrides it, and it overrides a profile.
	apiKeyFileVariable = apiKeyVariable + "_FILE"
	// apiKeyInterval is how long a key that was read is used before its file is read again.
	apiKeyInterval = 2 * time.Second
)

// apiKeyPath returns the path of the file with the API key, or "" if there is none.
func apiKeyPath() string {
	if os.Getenv(apiKeyVariable) != "" {
		return ""
	}
	return os.Getenv(apiKeyFileVariable)
}

// withAPIKey takes the API key from its file, if there is one. Like a key in Temporal's own configuration, it enables
// TLS.
func withAPIKey(options *client.Options, log *slog.Logger) error {
	path := apiKeyPath()
	if path == "" {
		return nil
	}
	key, err := readAPIKey(path)
	if err != nil {
		return err
	}
	file := &apiKeyFile{path: path, log: log, key: key, readAt: time.Now()}
	options.Credentials = client.NewAPIKeyDynamicCredentials(file.get)
	if options.ConnectionOptions.TLS == nil && !options.ConnectionOptions.TLSDisabled {
		options.ConnectionOptions.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return nil
}

// apiKeyFile is an API key that is reread while it is used, so that it can be rotated.
type apiKeyFile struct {
	path string
	log  *slog.Logger

	mu         sync.Mutex
	key        string
	readAt     time.Time
	complained bool
}

// get returns the key. If its file cannot be read, it returns the last one.
func (f *apiKeyFile) get(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.readAt) < apiKeyInterval {
		return f.key, nil
	}
	f.readAt = time.Now()
	key, err := readAPIKey(f.path)
	switch {
	case err != nil && !f.complained:
		f.log.WarnContext(ctx, "Cannot read Temporal's API key anew: going on with the last", "error", err)
	case err == nil && key != f.key:
		f.log.InfoContext(ctx, "Temporal's API key has changed")
		f.key = key
	}
	f.complained = err != nil
	return f.key, nil
}

func readAPIKey(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user chooses the path
	key := strings.TrimSpace(string(text))
	if err == nil && key == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("%s is %q: %w", apiKeyFileVariable, path, err)
	}
	return key, nil
}
