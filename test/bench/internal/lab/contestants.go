package lab

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"
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
	Workers  int           // River's MaxWorkers, or goroutines of the raw stub
	Count    int           // number of starts that the raw stub sends
}

// Child starts one of the bench's own contestants as a process.
func (l *Lab) Child(child Child) (*Process, error) {
	text, err := json.Marshal(child)
	if err != nil {
		return nil, fmt.Errorf("describe child: %w", err)
	}
	return l.start(child.Kind, l.self, nil, []string{ChildVariable + "=" + string(text)})
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
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	variables := []string{
		"DATABASE_URL=" + database.URL, "TEMPORAL_ADDRESS=" + frontend, "TEMPORAL_NAMESPACE=default",
		"PGDISPATCH_ADMIN_ADDR=" + admin, "PGDISPATCH_LOG_LEVEL=warn",
	}
	if options.Workers > 0 {
		variables = append(variables, "PGDISPATCH_WORKERS="+strconv.Itoa(options.Workers))
	}
	if options.Poll > 0 {
		variables = append(variables, "PGDISPATCH_POLL_INTERVAL="+options.Poll.String())
	}
	if options.Deaf {
		variables = append(variables, "PGDISPATCH_LISTEN=off")
	}
	p, err := l.start("pgdispatch", l.Binary, []string{"run"}, append(variables, options.Variables...))
	if err == nil {
		p.admin = admin
	}
	return p, err
}

// freeAddress returns an address that was free a moment ago. A replica does not report which port it was given.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
