-- PENDING -> CANCELLED
-- $1 execution. True if this call withdrew it.
select pgdispatch.cancel($1)
