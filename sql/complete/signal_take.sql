-- writes signals
-- $1 to $5 signals to settle, with the try, outcome, error and run of each; $6 executions started since; $7 at most.
-- Returns what next_signals returns.
select t.id, t.tries, t.request_id::text, t.execution_id::text, t.namespace, t.run_id, t.name, t.payload, t.waited, t.given_up, t.signals,
       t.next_in, t.waits, t.doubtful
from pgdispatch.next_signals($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[]::uuid[], $7) t
