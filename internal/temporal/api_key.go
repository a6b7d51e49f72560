package temporal

import (
	"crypto/tls"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"
)

const (
	apiKeyVariable = "TEMPORAL_API_KEY"
	// apiKeyFileVariable names a file with the API key. TEMPORAL_API_KEY overrides it, and it overrides a profile.
	apiKeyFileVariable = apiKeyVariable + "_FILE"
)

// apiKeyPath returns the path of the file with the API key, or "" if there is none.
func apiKeyPath() string {
	if os.Getenv(apiKeyVariable) != "" {
		return ""
	}
	return os.Getenv(apiKeyFileVariable)
}

// apiKeyFile is the file with the API key.
func apiKeyFile(path string, log *slog.Logger) *secretFile {
	return &secretFile{path: path, variable: apiKeyFileVariable, log: log,
		changed: "Temporal's API key has changed",
		unread:  "Cannot read Temporal's API key anew: going on with the last"}
}

// withAPIKey takes the API key from its file, if there is one. Like a key in Temporal's own configuration, it enables
// TLS.
func withAPIKey(options *client.Options, log *slog.Logger) error {
	path := apiKeyPath()
	if path == "" {
		return nil
	}
	file := apiKeyFile(path, log)
	if err := file.open(); err != nil {
		return err
	}
	options.Credentials = client.NewAPIKeyDynamicCredentials(file.get)
	if options.ConnectionOptions.TLS == nil && !options.ConnectionOptions.TLSDisabled {
		options.ConnectionOptions.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return nil
}
