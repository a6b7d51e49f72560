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
        if current_setting('pgdispatch.notify', true) is distinct from 'off' and {{ template "parts/room.sql" }} then
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
