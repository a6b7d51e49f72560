// Package operate is what operators read and change: the queue's state, items, dead letters, workspaces, settings and
// the audit log. The command line, the web view, the doctor and the metrics are built on it.
package operate

import "github.com/pgdispatch/pgdispatch/internal/postgres"

// Store executes the operators' statements. Those that change something also write to the audit log.
type Store struct{ DB postgres.Conn }
