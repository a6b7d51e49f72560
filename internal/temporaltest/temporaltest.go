// Package temporaltest starts a real Temporal server for tests.
package temporaltest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Start starts the Temporal server of bin/devstack in the checkout at path checkout, and returns its frontend's
// host:port. The server runs until stop is called or this process ends.
func Start(checkout string) (address string, stop func(), err error) {
	binary, err := filepath.Abs(filepath.Join(checkout, "bin", "devstack"))
	if err != nil {
		return "", nil, fmt.Errorf("find bin/devstack: %w", err)
	}
	if _, err := os.Stat(binary); err != nil {
		return "", nil, fmt.Errorf(
			"bin/devstack is missing, and with it the Temporal server for tests: run `make devstack`: %w", err)
	}
	command := exec.Command(binary, "temporal", "--exit-with-parent")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	lifeline, err := command.StdinPipe() // the server exits when this closes
	if err != nil {
		return "", nil, fmt.Errorf("start bin/devstack: %w", err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start bin/devstack: %w", err)
	}
	if err := command.Start(); err != nil {
		return "", nil, fmt.Errorf("start bin/devstack: %w", err)
	}
	stop = func() { _ = lifeline.Close(); _ = command.Wait() }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var ready struct{ Address string }
	if err = errors.Join(err, json.Unmarshal(line, &ready)); err != nil {
		stop()
		return "", nil, fmt.Errorf("start bin/devstack temporal: %w: %s", err, stderr.String())
	}
	return ready.Address, stop, nil
}
