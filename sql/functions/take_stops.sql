-- PENDING -> CANCELLED. Returns the open requests that are due and whose workflows run, for the caller to carry out.
-- Taking a request postpones its next try: nobody else takes it meanwhile, and another replica does if the caller dies.
-- Requests whose workflow has ended are settled here. An item that returned instead of being started is withdrawn.
create or replace function pgdispatch.take_stops(at_most integer)
returns table (execution_id uuid, namespace text, how text, reason text, requested_by text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    request record;
    outcome text;
begin
    for request in
        select s.execution_id, s.how, s.reason, s.requested_by, s.tries, e.status, e.finished_at, e.namespace,
               coalesce(q.status = 'PENDING' and not q.outcome_unknown, false) as waits,
               e.id is null and q.id is null as gone
        from pgdispatch.stop_requests s
        left join pgdispatch.workflow_executions e on e.id = s.execution_id
        left join pgdispatch.workflow_execution_queue q on q.execution_id = s.execution_id
        where s.state = 'OPEN' and s.next_try_at <= clock_timestamp()
        order by s.next_try_at
        limit at_most
        for update of s skip locked
    loop
        outcome := case when request.gone or request.finished_at is not null then 'ENDED' end;
        if request.waits then
            -- A locked item is left to the next look, so that the other requests do not wait for it.
            perform from pgdispatch.workflow_execution_queue q where q.execution_id = request.execution_id for no key update skip locked;
            if found and pgdispatch.cancel(request.execution_id) then
                outcome := 'WITHDRAWN';
                perform pgdispatch.commit_durably();
            end if;
        end if;
        if outcome is not null then
            update pgdispatch.stop_requests s
            set state = outcome, settled_at = clock_timestamp()
            where s.execution_id = request.execution_id;
        elsif request.status = 'RUNNING' then
            update pgdispatch.stop_requests s
            set tries = s.tries + 1, next_try_at = clock_timestamp() + least(interval '1 second' * 2 ^ least(s.tries, 10), interval '30 seconds')
            where s.execution_id = request.execution_id;
            execution_id := request.execution_id;
            namespace := request.namespace;
            how := request.how;
            reason := request.reason;
            requested_by := request.requested_by;
            return next;
        end if;
    end loop;
end;
$$;
