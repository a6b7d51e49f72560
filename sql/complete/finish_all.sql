-- DISPATCHED -> COMPLETED, FAILED
-- $1 executions, $2 outcomes, $3 reasons or null, $4 results as JSON or null. Those missing from the answer are left to
-- finish.
select f.execution::text as id, f.first from pgdispatch.finish_all($1, $2, $3, $4) f
