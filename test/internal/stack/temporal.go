package stack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// temporalTimeout bounds the wait until a started server answers.
const temporalTimeout = 60 * time.Second

// temporalReady is the line that devstack writes once the server answers.
var temporalReady = regexp.MustCompile(`\{"address":"[^"]+"`)

// Temporal is a real Temporal server, running or not, that keeps its port across restarts.
type Temporal struct {
	// Binary is the path of devstack, which embeds the server.
	Binary string
	// Port is the frontend's port on 127.0.0.1.
	Port int
	// Database is the path of the database file. Empty means in memory.
	Database string
	// LogPath is the path of the log.
	LogPath string

	process *process.Process
}

// Address returns the frontend's host:port.
func (s *Temporal) Address() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// Start starts the server and returns when it answers.
func (s *Temporal) Start() (err error) {
	args := []string{"temporal", "--addr", s.Address(), "--db", s.Database}
	s.process, err = process.Start(process.Spec{Name: "Temporal", Program: s.Binary, Args: args, LogPath: s.LogPath})
	if err != nil {
		return err
	}
	cause := fmt.Errorf("it did not answer within %s", temporalTimeout)
	ctx, cancel := context.WithTimeoutCause(context.Background(), temporalTimeout, cause)
	defer cancel()
	if _, err := AwaitSaying(ctx, s.process, temporalReady); err != nil {
		return errors.Join(err, s.process.Kill())
	}
	return nil
}

// Process returns the server's process, for example to kill or freeze it. It is nil before the first Start.
func (s *Temporal) Process() *process.Process { return s.process }
