// Package temporal runs a real Temporal server with persistent state, and the worker that completes the workflows.
package temporal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/process"
)

// readyTimeout bounds the wait until a started server answers.
const readyTimeout = 60 * time.Second

// Server is a Temporal server with a database file, running or not.
type Server struct {
	// Binary is the path of devstack, which embeds the server.
	Binary string
	// Port is the frontend's port on 127.0.0.1. It stays the same across restarts.
	Port int
	// Database is the path of the database file.
	Database string
	// LogPath is the path of the log.
	LogPath string

	process *process.Process
}

// Address returns the frontend's host:port.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// Start starts the server and returns when it answers.
func (s *Server) Start() error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer reader.Close()
	s.process, err = process.Start(process.Spec{Name: "Temporal", Program: s.Binary,
		Args: []string{"temporal", "--addr", s.Address(), "--db", s.Database}, Env: os.Environ(), LogPath: s.LogPath, Stdout: writer})
	if err = errors.Join(err, writer.Close()); err != nil {
		return err
	}
	line := make(chan error, 1)
	go func() {
		text, err := bufio.NewReader(reader).ReadBytes('\n')
		var ready struct{ Address string }
		if err == nil {
			err = json.Unmarshal(text, &ready)
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("it ended")
		}
		line <- err
	}()
	select {
	case err = <-line:
	case <-time.After(readyTimeout):
		err = fmt.Errorf("it did not answer within %s", readyTimeout)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start Temporal: %w\n%s", err, s.process.Tail()), s.process.Kill())
	}
	return nil
}

// Process returns the server's process, for example to kill or freeze it.
func (s *Server) Process() *process.Process { return s.process }
