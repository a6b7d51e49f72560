package lab

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

// ChildVariable is the environment variable that makes the bench's binary run as one of the contestants. It holds a
// Child as JSON.
const ChildVariable = "PGDISPATCH_BENCH_CHILD"

// Kinds of children.
const (
	KindFloor  = "floor"
	KindPolled = "polled"
	KindRiver  = "river"
	KindRaw    = "raw"
)

// Child selects a contestant and configures it.
type Child struct {
	Kind     string
	URL      string        // of the database
	Frontend string        // host:port
	Async    bool          // floor: claims with synchronous_commit = off
	Cooldown time.Duration // River's FetchCooldown; zero means its default
	GzipOff  bool          // River: its Temporal client does not compress
	Waits    bool          // River: its job waits for the workflow's end
	Workers  int           // River's MaxWorkers, or goroutines of the raw stub
	Count    int           // number of starts that the raw stub sends
}

// Process is a contestant. Each is a program of its own with its own runtime, separate from the bench's.
type Process struct {
	*process.Process
	admin string // where a replica serves its metrics; empty for other processes
}

// Child starts one of the bench's own contestants as a process.
func (l *Lab) Child(child Child) (*Process, error) {
	text, err := json.Marshal(child)
	if err != nil {
		return nil, fmt.Errorf("describe child: %w", err)
	}
	p, err := process.Start(process.Spec{
		Name: child.Kind, Program: l.self, Env: process.Environment(ChildVariable + "=" + string(text)),
		LogPath: l.logPath(child.Kind),
	})
	if err != nil {
		return nil, err
	}
	return &Process{Process: p}, nil
}

// Replica configures a replica of the product. Zero values mean the product's defaults.
type Replica struct {
	Workers int
	Poll    time.Duration
	Deaf    bool // PGDISPATCH_LISTEN=off
	// Variables are additional environment variables.
	Variables []string
}

// Replica starts one replica of the product as users run it: only what differs from the defaults is set.
func (l *Lab) Replica(database *Database, frontend string, options Replica) (*Process, error) {
	admin, err := process.FreeAddress() // a replica does not report which port it was given
	if err != nil {
		return nil, err
	}
	env := []string{"PGDISPATCH_ADMIN_ADDR=" + admin, "PGDISPATCH_LOG_LEVEL=warn"}
	if options.Workers > 0 {
		env = append(env, "PGDISPATCH_WORKERS="+strconv.Itoa(options.Workers))
	}
	if options.Poll > 0 {
		env = append(env, "PGDISPATCH_POLL_INTERVAL="+options.Poll.String())
	}
	if options.Deaf {
		env = append(env, "PGDISPATCH_LISTEN=off")
	}
	p, err := stack.Replica{
		Name: "pgdispatch", Binary: l.Binary, DatabaseURL: database.URL, Temporal: frontend,
		Env: append(env, options.Variables...), LogPath: l.logPath("pgdispatch"),
	}.Start()
	if err != nil {
		return nil, err
	}
	return &Process{Process: p, admin: admin}, nil
}

// logPath returns the path of a new log.
func (l *Lab) logPath(name string) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s-%d.log", name, l.names.Add(1)))
}
