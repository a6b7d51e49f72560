-- PENDING -> CANCELLED
-- $1 at most. Whether requests to stop executions are open and, a row each, those that are to be carried out now. The first of
-- all is there in any case; execution_id is null where nothing is to be done.
select o.open, t.execution_id::text, t.namespace, t.how, t.reason, t.requested_by
from (select exists (select from pgdispatch.stop_requests s where s.state = 'OPEN') as open) o
left join pgdispatch.take_stops($1::integer) t on true
