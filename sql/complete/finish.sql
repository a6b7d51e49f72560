-- DISPATCHED -> COMPLETED, FAILED
-- $1 execution, $2 outcome, $3 reason, $4 result as JSON or null. Returns true if this call ended it.
select pgdispatch.finish($1, $2,
    case when $4::text is not null and r.result is null then 'JSON that Postgres rejects: not stored' else $3 end, r.result)
from pgdispatch.result_of($4::text) as r (result)
