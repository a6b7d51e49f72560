-- PENDING -> CANCELLED
-- $1 execution. Returns true if this call withdrew it.
select pgdispatch.cancel($1)
