package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// temporalTimeout bounds the wait until a started server answers.
const temporalTimeout = 60 * time.Second

// temporalReady is in the line that devstack writes once the server answers, with its port.
var temporalReady = regexp.MustCompile(`\{"address":"127\.0\.0\.1:(\d+)"`)

// Temporal is a real Temporal server, running or not, that keeps its port across restarts.
type Temporal struct {
	// Binary is the path of devstack, which embeds the server.
	Binary string
	// Database is the path of the database file. Empty means in memory.
	Database string
	// LogPath is the path of the log.
	LogPath string
	// Namespaces are created. None means the namespace "default" alone.
	Namespaces []string

	port    int // 0 before the first start, which picks a free one
	process *process.Process
}

// StartTemporal starts the server of a checkout's bin/devstack, with its log in the directory.
func StartTemporal(checkout, directory string) (*Temporal, error) {
	server := &Temporal{
		Binary: filepath.Join(checkout, "bin", "devstack"), LogPath: filepath.Join(directory, "temporal.log"),
	}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("%w: `make devstack` builds bin/devstack", err)
	}
	return server, nil
}

// Address returns the frontend's host:port.
func (s *Temporal) Address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Start starts the server and returns when it answers.
func (s *Temporal) Start() (err error) {
	args := []string{"temporal", "--addr", s.Address(), "--db", s.Database}
	for _, namespace := range s.Namespaces {
		args = append(args, "--namespace", namespace)
	}
	s.process, err = process.Start(process.Spec{Name: "Temporal", Program: s.Binary, Args: args, LogPath: s.LogPath})
	if err != nil {
		return err
	}
	cause := fmt.Errorf("it did not answer within %s", temporalTimeout)
	ctx, cancel := context.WithTimeoutCause(context.Background(), temporalTimeout, cause)
	defer cancel()
	port, err := AwaitSaying(ctx, s.process, temporalReady)
	if err == nil && s.port == 0 {
		s.port, err = strconv.Atoi(port)
	}
	if err != nil {
		return errors.Join(err, s.process.Kill())
	}
	return nil
}

// Client creates a client that survives restarts of the server, and logs nothing.
func (s *Temporal) Client() (client.Client, error) { return s.ClientOf("default") }

// ClientOf is Client for a namespace.
func (s *Temporal) ClientOf(namespace string) (client.Client, error) {
	return client.NewLazyClient(client.Options{
		HostPort: s.Address(), Namespace: namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
}

// Process returns the server's process, for example to kill or freeze it. It is nil before the first Start.
func (s *Temporal) Process() *process.Process { return s.process }
