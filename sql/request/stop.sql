-- Requests to cancel or terminate a workflow.

-- name: stop_take
-- PENDING -> CANCELLED
-- $1 at most. Returns whether stop requests are open, and a row for each that is to be carried out now. There is always
-- a first row; its execution_id is null if nothing is to be done.
select o.open, t.execution_id::text, t.workflow_id, t.run_id, t.namespace, e.kind, t.how, t.reason, t.requested_by
from (select exists (select from pgdispatch.stop_requests s where s.state = 'OPEN') as open) o
left join pgdispatch.take_stops($1::integer) t on true
left join pgdispatch.workflow_executions e on e.id = t.execution_id

-- name: stop_done
-- writes stop requests
-- $1 execution, $2 how, $3 Temporal's error (null: it accepted). A request that became TERMINATE meanwhile stays open.
update pgdispatch.stop_requests s
set state = case when $3::text is null then 'SENT' else s.state end,
    settled_at = case when $3::text is null then clock_timestamp() end,
    error = $3::text
where s.execution_id = $1::text::uuid and s.how = $2::text and s.state = 'OPEN'

-- function: request_stop
-- PENDING -> CANCELLED. Withdraws a waiting item or requests the end of its workflow, and returns which: WITHDRAWN,
-- REQUESTED, ALREADY_REQUESTED or ALREADY_ENDED. For an item that is being handed over, the request is carried out once
-- its workflow runs. A request to terminate replaces one to cancel, but not vice versa.
create or replace function pgdispatch.request_stop(execution uuid, how text, reason text, who text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    answer text;
    item_status text;
    ended boolean;
begin
    perform pgdispatch.see_to('{}', who);
    if pgdispatch.cancel(execution) then
        answer := 'WITHDRAWN';
    else
        select q.status into item_status from pgdispatch.workflow_execution_queue q where q.execution_id = execution;
        select e.finished_at is not null into ended from pgdispatch.workflow_executions e where e.id = execution;
        if item_status is null and ended is null then
            raise exception 'no item has execution %', coalesce(execution::text, 'null')
                using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.workflow_execution_queue.';
        end if;
        if ended or item_status in ('COMPLETED', 'FAILED', 'CANCELLED') then
            return 'ALREADY_ENDED';
        end if;
        insert into pgdispatch.stop_requests as s (execution_id, how, reason, requested_by)
        values (execution, request_stop.how, left(coalesce(request_stop.reason, ''), 500), who)
        on conflict (execution_id) do update
        set how = excluded.how, reason = excluded.reason, requested_by = excluded.requested_by, requested_at = excluded.requested_at,
            state = 'OPEN', settled_at = null, tries = 0, next_try_at = excluded.next_try_at, error = null
        where s.how = 'CANCEL' and excluded.how = 'TERMINATE';
        if not found then
            return 'ALREADY_REQUESTED';
        end if;
        answer := 'REQUESTED';
        if current_setting('pgdispatch.notify', true) is distinct from 'off' and {{ template "room" }} then
            perform pg_notify('pgdispatch_stop', '');
        end if;
    end if;
    insert into pgdispatch.admin_log (who, action, subject, details)
    values (who, 'executions ' || lower(request_stop.how), 'execution ' || execution,
            jsonb_build_object('answer', answer, 'reason', left(coalesce(request_stop.reason, ''), 500)));
    return answer;
end;
$$;

create or replace function pgdispatch.request_cancel(execution uuid, reason text default null, who text default session_user) returns text
language sql volatile
as $$
    select pgdispatch.request_stop(execution, 'CANCEL', reason, who);
$$;

create or replace function pgdispatch.request_terminate(execution uuid, reason text default null, who text default session_user) returns text
language sql volatile
as $$
    select pgdispatch.request_stop(execution, 'TERMINATE', reason, who);
$$;

-- function: take_stops
-- PENDING -> CANCELLED. Returns the open requests that are due and whose workflows run, for the caller to carry out.
-- Taking a request postpones its next try: nobody else takes it meanwhile, and another replica does if the caller dies.
-- Requests whose workflow has ended are settled here. An item that returned instead of being started is withdrawn.
drop function if exists pgdispatch.take_stops(integer); -- it returned other columns
create or replace function pgdispatch.take_stops(at_most integer)
returns table (execution_id uuid, workflow_id text, run_id text, namespace text, how text, reason text, requested_by text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    request record;
    outcome text;
begin
    for request in
        select s.execution_id, s.how, s.reason, s.requested_by, s.tries, e.status, e.finished_at, e.workflow_id, e.run_id, e.namespace,
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
            workflow_id := request.workflow_id;
            run_id := request.run_id;
            namespace := request.namespace;
            how := request.how;
            reason := request.reason;
            requested_by := request.requested_by;
            return next;
        end if;
    end loop;
end;
$$;
