-- DISPATCHED -> COMPLETED, FAILED
-- $1 execution, $2 outcome, $3 reason. True if this call ended it.
select pgdispatch.finish($1, $2, $3)
