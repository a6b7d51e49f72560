// Package stack starts the product for the harnesses: replicas of pgdispatch with their schema, and a real Temporal
// server. Postgres comes from sql/sqltest or from the harness.
package stack

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"runtime/debug"
	"slices"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// Log patterns of a replica.
var (
	// Serving: it serves health, metrics and the web view; the group is the address.
	Serving = regexp.MustCompile(`"msg":"Serving health and metrics"[^\n]*"address":"([^"]+)"`)
	// Listening: it listens for new items, or is configured not to.
	Listening = regexp.MustCompile(`"msg":"Listening"|"listen":false`)
)

// Build builds pgdispatch from a checkout, with the race detector if this process has it.
func Build(checkout, binary string) error {
	args := []string{"build", "-C", checkout, "-o", binary}
	race := debug.BuildSetting{Key: "-race", Value: "true"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, race) {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "./cmd/pgdispatch")...).CombinedOutput(); err != nil {
		return fmt.Errorf("build pgdispatch: %w: %s", err, out)
	}
	return nil
}

// Replica describes a replica to start.
type Replica struct {
	// Name identifies it in messages.
	Name string
	// Binary is the path of pgdispatch.
	Binary string
	// DatabaseURL and Temporal are the addresses of its database, and of Temporal's frontend as host:port.
	DatabaseURL, Temporal string
	// Env is added to its environment and overrides it.
	Env []string
	// LogPath is the path of its log.
	LogPath string
}

// Start starts the replica as users run it, with defaults for everything that is not in Env. It does not wait.
func (r Replica) Start() (*process.Process, error) {
	env := process.Environment("DATABASE_URL="+r.DatabaseURL, "TEMPORAL_ADDRESS="+r.Temporal, "TEMPORAL_NAMESPACE=default")
	return process.Start(process.Spec{
		Name: r.Name, Program: r.Binary, Args: []string{"run"}, Env: append(env, r.Env...), LogPath: r.LogPath,
	})
}

// AwaitSaying waits until a process has logged a match of the pattern, and returns the pattern's last group.
func AwaitSaying(ctx context.Context, p *process.Process, pattern *regexp.Regexp) (found string, err error) {
	err = p.Await(ctx, func() error {
		match := pattern.FindStringSubmatch(p.Log())
		if match == nil {
			return fmt.Errorf("it has not logged %s", pattern)
		}
		found = match[len(match)-1]
		return nil
	})
	return found, err
}

// Migrate creates or updates a binary's schema in a database, exactly as shipped.
func Migrate(ctx context.Context, binary, databaseURL string) error {
	command := exec.CommandContext(ctx, binary, "migrate", "up")
	command.Env = process.Environment("DATABASE_URL=" + databaseURL)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("pgdispatch migrate up: %w:\n%s", err, out)
	}
	return nil
}
