package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

const (
	// settleTime is how long a replica rests before it is measured.
	settleTime = 3 * time.Second
	// dumpTimeout bounds the wait for the goroutine dump.
	dumpTimeout = 5 * time.Second
	// ruleLeaks requires that no resources are left behind.
	ruleLeaks = "goroutines, memory, files and sessions are back at their baseline"
	// These are the allowed increases since the beginning. Pools keep what they have opened. Memory is in KiB.
	allowedGoroutines, allowedFiles, allowedMemory = 25, 15, 60 << 10
	// sessionsEach is the documented maximum number of sessions per replica.
	sessionsEach = 12
)

// Resource holds the resources that a replica uses.
type Resource struct {
	// Replica names the replica.
	Replica string
	// Goroutines, Files and Memory (resident, in KiB) are the replica's own. Sessions are those of all replicas at the
	// database.
	Goroutines, Files, Memory, Sessions int
}

// Baseline measures a replica that has not done any work yet, and replaces it with a new one. Measuring ends the
// replica, because the goroutine dump on SIGQUIT is the only one available from outside.
func Baseline(ctx context.Context, l *lab.Lab) (Resource, error) {
	if err := lab.Sleep(ctx, settleTime/2); err != nil {
		return Resource{}, err
	}
	r, err := measure(ctx, l, l.Replicas[0])
	if err != nil {
		return r, err
	}
	return r, errors.Join(l.Replicas[0].Start(), l.Replicas[0].Ready(ctx))
}

// resources measures every replica at the end of the run, which also ends it.
func (c *Check) resources(ctx context.Context, l *lab.Lab, baseline Resource) error {
	if err := lab.Sleep(ctx, settleTime); err != nil {
		return err
	}
	baseline.Replica = "at the beginning"
	c.Resources = append(c.Resources, baseline)
	for _, replica := range l.Replicas {
		r, err := measure(ctx, l, replica)
		if err != nil {
			return err
		}
		c.Resources = append(c.Resources, r)
		if r.Goroutines > baseline.Goroutines+allowedGoroutines || r.Files > baseline.Files+allowedFiles ||
			r.Memory > baseline.Memory+allowedMemory || r.Sessions > lab.Replicas*sessionsEach {
			c.fail(ruleLeaks, "%+v, and at the beginning %+v", r, baseline)
		}
	}
	return nil
}

var goroutine = regexp.MustCompile(`(?m)^goroutine [1-9]\d* `)

func measure(ctx context.Context, l *lab.Lab, replica *lab.Replica) (Resource, error) {
	r := Resource{Replica: fmt.Sprintf("replica %d", replica.N)}
	p := replica.Process()
	proc := filepath.Join("/proc", strconv.Itoa(p.PID))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return r, fmt.Errorf("count files of %s: %w", r.Replica, err)
	}
	r.Files = len(files)
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return r, fmt.Errorf("read memory of %s: %w", r.Replica, err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			r.Memory, _ = strconv.Atoi(fields[1])
		}
	}
	var listeners int
	if err := l.Row(ctx, "sessions", []any{time.Now()}, &r.Sessions, &listeners); err != nil {
		return r, err
	}
	if err := p.Signal(syscall.SIGQUIT); err != nil {
		return r, err
	}
	if !p.EndsWithin(dumpTimeout) {
		return r, fmt.Errorf("%s did not quit within %s", r.Replica, dumpTimeout)
	}
	log, err := os.ReadFile(p.LogPath)
	if err != nil {
		return r, fmt.Errorf("read goroutines of %s: %w", r.Replica, err)
	}
	r.Goroutines = len(goroutine.FindAll(log, -1))
	return r, nil
}
