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

// Session are the settings of every connection: texts and times are exchanged as this says, whatever the role's and the
// database's settings are. Every transaction pooler takes these from its clients, and keeps them apart. Everything else
// that an answer's text depends on, such as IntervalStyle, does not matter, because answers are binary.
var Session = map[string]string{
	"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC", "standard_conforming_strings": "on",
}

// DirectSettings are for direct connections. A transaction pooler refuses them, or would leak them to the next client
// of the server connection.
func DirectSettings(more ...map[string]string) map[string]string {
	settings := map[string]string{
		// A claim must see what others committed while it waited for its lock, whatever the role's default isolation is.
		"default_transaction_isolation": "read committed",
		// Each statement has a timeout of its own. lock_timeout is long enough for others to commit, and keeps one locked
		// row from blocking everything behind it.
		"statement_timeout": "0", "lock_timeout": LockTimeout.String(), "idle_session_timeout": "0",
		"idle_in_transaction_session_timeout": "0", "exit_on_error": "off",
		// Safe to set, because every name in package sql is schema-qualified.
		"search_path": Planning["search_path"],
		// What changes the meaning of a statement or the text of a value.
		"IntervalStyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1", "array_nulls": "on",
		"transform_null_equals": "off", "quote_all_identifiers": "off", "row_security": "on",
	}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	return settings
}

// commandSettings are for commands, which may wait for locks and show the server's warnings.
func commandSettings() map[string]string {
	return DirectSettings(map[string]string{"lock_timeout": "0", "client_min_messages": "notice"})
}

// TCPUserTimeout is how long the server keeps a connection whose client does not acknowledge data. Without it, a
// stopped listener would hold back vacuum in the whole database and fill the notification queue.
const TCPUserTimeout = "8s"

// ListenerSettings are for a connection that listens.
func ListenerSettings() map[string]string {
	return DirectSettings(map[string]string{"application_name": "pgdispatch listener", "tcp_user_timeout": TCPUserTimeout})
}
