-- $1 workspace, $2 definition, $3 params, $4 key, $5 policy, $6 quiet or null, $7 at most or null.
select e.execution_id::text, e.action
from pgdispatch.enqueue($1::text::uuid, $2::text::uuid, $3::jsonb, key => $4, on_conflict => $5, quiet => $6::interval, at_most => $7::interval) e
