-- Locks open items one after another, in one of two orders.
do $$
declare
    item bigint;
begin
    for item in select q.id from pgdispatch.workflow_execution_queue q where q.status in ('PENDING', 'CLAIMED') order by q.id asc limit 20 loop
        update pgdispatch.workflow_execution_queue q set priority = q.priority where q.id = item;
    end loop;
end
$$
