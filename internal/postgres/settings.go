package postgres

import (
	"maps"
	"time"
)

// Planning are optional settings for connections that execute package sql's statements: a pooler may reject them, and
// without them statements are slower. Postgres then plans each statement once per connection, which costs more than a
// small settle, and uses indexes: a plan made while a table was small would scan all of it later. search_path matches
// that of the functions, which are planned again whenever it changes.
var Planning = map[string]string{
	"search_path": "pg_catalog, pg_temp", "plan_cache_mode": "force_generic_plan", "jit": "off",
	"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
}

// LockTimeout is the lock_timeout for connections that execute package sql's statements: how long a settle or a
// heartbeat waits for a locked row. Settles and heartbeats of other replicas hold their locks for milliseconds.
const LockTimeout = time.Second

// DirectSettings are for direct connections. A transaction pooler refuses them, or would leak them to the next client
// of the server connection.
func DirectSettings(more ...map[string]string) map[string]string {
	// A claim must see what others committed while it waited for its lock, whatever the role's default isolation is.
	// The role's timeouts are overridden because each statement has a timeout of its own. lock_timeout is long enough
	// for others to commit, and keeps one locked row from blocking everything behind it. search_path is safe to set
	// because every name in package sql is schema-qualified.
	settings := map[string]string{
		"default_transaction_isolation": "read committed", "search_path": Planning["search_path"],
		"statement_timeout": "0", "lock_timeout": LockTimeout.String(), "idle_session_timeout": "0",
	}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	return settings
}

// TCPUserTimeout is how long the server keeps a connection whose client does not acknowledge data. Without it, a
// stopped listener would hold back vacuum in the whole database and fill the notification queue.
const TCPUserTimeout = "8s"

// ListenerSettings are for a connection that listens.
func ListenerSettings() map[string]string {
	return DirectSettings(map[string]string{"application_name": "pgdispatch listener", "tcp_user_timeout": TCPUserTimeout})
}
