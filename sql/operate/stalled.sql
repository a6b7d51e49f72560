-- reads
-- $1 at most. What runs and does not progress, most executions first.
select s.kind, s.namespace, s.name, s.executions, s.detail, clock_timestamp() - s.since as since
from pgdispatch.stalled s
order by s.executions desc, s.since, s.namespace, s.name
limit $1
