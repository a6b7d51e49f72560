-- PENDING -> CANCELLED
-- $1 at most. Returns whether stop requests are open, and a row for each that is to be carried out now. There is always
-- a first row; its execution_id is null if nothing is to be done.
select o.open, t.execution_id::text, t.namespace, t.how, t.reason, t.requested_by
from (select exists (select from pgdispatch.stop_requests s where s.state = 'OPEN') as open) o
left join pgdispatch.take_stops($1::integer) t on true
