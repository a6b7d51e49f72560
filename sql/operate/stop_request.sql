-- PENDING -> CANCELLED
-- $1 execution, $2 how: CANCEL or TERMINATE, $3 reason, $4 who. Returns the function's answer.
select pgdispatch.request_stop($1::text::uuid, $2, $3, $4)
