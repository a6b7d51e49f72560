-- How executions end.

{{- /* The end of the workflow, for its execution e. The argument names the row or function with outcome, reason and result. */ -}}
{{ define "execution_ended" -}}
set status = {{ . }}.outcome,
    error = case {{ . }}.outcome when 'COMPLETED' then null else left({{ . }}.reason, 2000) end,
    result = coalesce({{ . }}.result, e.result),
    result_note = case {{ . }}.outcome when 'COMPLETED' then left({{ . }}.reason, 2000) end,
    finished_at = clock_timestamp(),
    watcher = null
{{ end }}
{{- /* The end of the workflow, for its item. The argument names the row or function with outcome and reason. */ -}}
{{ define "item_ended" -}}
set status = case {{ . }}.outcome when 'COMPLETED' then 'COMPLETED' else 'FAILED' end,
    last_error = case {{ . }}.outcome when 'COMPLETED' then null
        else left(coalesce(nullif({{ . }}.reason, ''), 'workflow ' || lower({{ . }}.outcome)), 2000) end,
    finished_at = clock_timestamp()
{{ end }}

-- name: finish
-- DISPATCHED -> COMPLETED, FAILED
-- $1 execution, $2 outcome, $3 reason, $4 result as JSON or null. Returns true if this call ended it.
select pgdispatch.finish($1, $2,
    case when $4::text is not null and r.result is null then 'JSON that Postgres rejects: not stored' else $3 end, r.result)
from pgdispatch.result_of($4::text) as r (result)

-- name: finish_all
-- DISPATCHED -> COMPLETED, FAILED
-- $1 executions, $2 outcomes, $3 reasons or null, $4 results as JSON or null. Those missing from the answer are left to
-- finish.
select f.execution::text as id, f.first from pgdispatch.finish_all($1, $2, $3, $4) f

-- function: finish
-- DISPATCHED -> COMPLETED, FAILED. Reports that an execution's workflow has ended; returns true if this call is the
-- first to report it. Anyone may report it, any number of times: the first report counts, the others change nothing. It
-- may be reported before the item is DISPATCHED, because a workflow can end before its start is settled; the settle
-- then applies the end. An execution whose item was deleted while it ran is ended too; otherwise its watcher would
-- return to it forever.
-- reason says why the workflow did not complete; for a completed workflow it is a note on the result. execution_said
-- bounds the size of a result, whoever reports it.
create or replace function pgdispatch.finish(execution uuid, outcome text, reason text default null, result jsonb default null) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- Applications call it too. A session that plans it while the tables are small would scan them from end to end once
-- they are large. A scan that is needed anyway then seems so costly that Postgres would compile the statement.
set enable_seqscan = off
set jit = off
as $$
declare
    item_status text;
begin
    if outcome is null or outcome not in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT') then
        raise exception 'outcome is %: it must be COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT', coalesce(outcome, 'null')
            using errcode = 'PGD22', hint = 'Use Temporal''s status of the closed workflow.';
    end if;
    update pgdispatch.workflow_execution_queue q
    {{ template "item_ended" "finish" }}
    where q.execution_id = execution and q.status = 'DISPATCHED';
    if not found then
        -- The start may have been sent: the settle waits for this row and then sees what is recorded here.
        select case when q.status = 'PENDING' and not q.outcome_unknown then 'WAITING' else q.status end into item_status
        from pgdispatch.workflow_execution_queue q
        where q.execution_id = execution
        for no key update;
        if item_status = 'DISPATCHED' then
            return pgdispatch.finish(execution, outcome, reason, result); -- settled while this waited
        elsif item_status in ('CLAIMED', 'PENDING') then
            update pgdispatch.workflow_executions e
            set early_outcome = outcome, early_reason = left(reason, 2000), result = finish.result
            where e.id = execution and e.early_outcome is null;
            return found;
        elsif item_status = 'WAITING' then
            return false;
        end if;
    end if;
    update pgdispatch.workflow_executions e
    {{ template "execution_ended" "finish" }}
    where e.id = execution and (e.status = 'RUNNING' or e.status = 'STARTING' and item_status is not null);
    return found and item_status is null;
end;
$$;

-- function: finish_all
-- DISPATCHED -> COMPLETED, FAILED. finish for several executions at once, at a fifth of the cost of single calls. It
-- does not wait for locked rows, which would hold up the others.
-- Returns the executions that it ended (first is true) and those that had already ended. Those that are missing are
-- left to finish: the row is locked, or the item is not yet DISPATCHED, or is gone. Results are JSON; one that Postgres
-- rejects is omitted, and the execution says so.
create or replace function pgdispatch.finish_all(executions uuid[], outcomes text[], reasons text[], results text[])
returns table (execution uuid, first boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- As in claim: statistics must not make the planner avoid the indexes.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    held uuid[];
    freed uuid[]; keys text[];
    marked text;
    announced boolean;
begin
    held := array(
        select e.id
        from pgdispatch.workflow_execution_queue q
        join pgdispatch.workflow_executions e on e.id = q.execution_id
        where q.execution_id = any (executions) and q.status = 'DISPATCHED' and e.status = 'RUNNING'
        for no key update of q, e skip locked
    );
    -- One mark and one notification for all ends, instead of one each: see item_moved. execution_said need not check
    -- these rows: the items are ended and the results are bounded here.
    marked := set_config('pgdispatch.marked', 'on', true);
    with ended as (
        update pgdispatch.workflow_execution_queue q
        {{ template "item_ended" "s" }}
        from unnest(executions, outcomes, reasons) as s (execution, outcome, reason)
        where q.execution_id = s.execution and s.execution = any (held)
        returning q.workspace_id, q.limit_key, q.status
    ), noted as (
        insert into pgdispatch.marks (workspaces, limit_keys, completed, failed, completed_of, failed_of)
        select array_agg(e.workspace_id), (select array_agg(distinct k.limit_key) from ended k where k.limit_key is not null),
               sum(e.completed), sum(e.failed), array_agg(e.completed), array_agg(e.failed)
        from (select e.workspace_id, count(*) filter (where e.status = 'COMPLETED') as completed,
                     count(*) filter (where e.status = 'FAILED') as failed from ended e group by e.workspace_id) e
        having count(*) > 0 returning workspaces, limit_keys
    )
    select n.workspaces, n.limit_keys, s.notify_ended into freed, keys, announced from noted n cross join pgdispatch.settings s;
    update pgdispatch.workflow_executions e
    {{ template "execution_ended" "s" }}
    from (
        select g.execution, g.outcome, case when r.fits then r.result end as result,
               case when g.given is not null and r.result is null then 'JSON that Postgres rejects: not stored'
                    when g.outcome = 'COMPLETED' and not r.fits and r.most > 0
                    then format('%s bytes: exceeds result-bytes, %s', octet_length(r.result::text), r.most)
                    else g.reason end as reason
        from unnest(executions, outcomes, reasons, results) as g (execution, outcome, reason, given)
        cross join lateral (
            select r.result, s.result_bytes as most, g.outcome = 'COMPLETED' and octet_length(r.result::text) <= s.result_bytes as fits
            from pgdispatch.settings s
            cross join lateral (select case when g.given is not null then pgdispatch.result_of(g.given) end as result offset 0) r
            offset 0
        ) r
    ) s
    where e.id = s.execution and s.execution = any (held);
    marked := set_config('pgdispatch.marked', 'off', true);
    perform pgdispatch.wake() where keys is not null; -- others may wait for the keys
    perform pgdispatch.wake_for(freed) where freed is not null and keys is null;
    perform pgdispatch.announce_ends(held) where announced;
    return query
    select h.id, true from unnest(held) as h (id)
    union all
    select e.id, false
    from pgdispatch.workflow_executions e
    join pgdispatch.workflow_execution_queue q on q.execution_id = e.id
    where e.id = any (executions) and e.id <> all (held) and e.finished_at is not null and q.finished_at is not null;
end;
$$;

-- function: end_early
-- CLAIMED -> DISPATCHED was settled after the workflow's end was reported: applies that end.
create or replace function pgdispatch.end_early() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Checked here: every statement would parse a condition of the trigger again.
    if old.status = 'STARTING' and new.status = 'RUNNING' then
        perform pgdispatch.finish(new.id, new.early_outcome, new.early_reason);
    end if;
    return null;
end;
$$;

-- function: execution_said
-- An application may report a workflow's end by updating its execution's status, instead of calling finish. This
-- trigger fills in the other columns and moves the item. pgdispatch's own statements move the item first and pass
-- through. The trigger holds the execution's lock and must not wait for the item's: its holder may wait for the
-- execution.
create or replace function pgdispatch.execution_said() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    outcome text := new.status;
    reason text := left(new.error, 2000);
    item_id bigint;
    item_status text;
    unknown boolean;
    most integer;
begin
    if outcome not in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT') then
        return new; -- checked here: every statement would parse a condition of the trigger again
    end if;
    if old.finished_at is not null then
        return null; -- the first report counts
    end if;
    if new.result is not null then
        select s.result_bytes into most from pgdispatch.settings s;
        if outcome <> 'COMPLETED' or octet_length(new.result::text) > most then
            new.result_note := case when outcome = 'COMPLETED' and most > 0 then
                format('%s bytes: exceeds result-bytes, %s', octet_length(new.result::text), most) end;
            new.result := null;
        end if;
    end if;
    select q.id, q.status, q.outcome_unknown into item_id, item_status, unknown
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = new.id;
    if item_status = 'PENDING' and not unknown then
        raise exception 'execution % has not started and cannot be %', new.id, outcome
            using errcode = 'PGD26', hint = 'Withdraw it with pgdispatch.cancel.';
    end if;
    if item_status = 'DISPATCHED' then
        perform from pgdispatch.workflow_execution_queue q where q.id = item_id and q.status = 'DISPATCHED' for no key update skip locked;
    end if;
    if item_status in ('PENDING', 'CLAIMED') or (item_status = 'DISPATCHED' and not found) then
        -- The item's holder settles or ends it.
        old.early_reason := coalesce(old.early_reason, case when old.early_outcome is null then coalesce(reason, new.result_note) end);
        old.result := case when old.early_outcome is null then new.result else old.result end;
        old.early_outcome := coalesce(old.early_outcome, outcome);
        return old;
    end if;
    if item_status = 'DISPATCHED' then
        update pgdispatch.workflow_execution_queue q
        set status = case outcome when 'COMPLETED' then 'COMPLETED' else 'FAILED' end,
            last_error = case outcome when 'COMPLETED' then null else coalesce(nullif(reason, ''), 'workflow ' || lower(outcome)) end,
            finished_at = clock_timestamp()
        where q.id = item_id;
        new.watcher := null;
    end if;
    new.finished_at := coalesce(new.finished_at, clock_timestamp());
    return new;
end;
$$;

-- function: result_of
-- A result as jsonb; null if Postgres rejects it: a \u0000, half of a surrogate pair, or a number out of range.
-- Otherwise the end could not be recorded, and the item would hold its slot forever.
create or replace function pgdispatch.result_of(given text) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return given::jsonb;
exception
    when others then
        return null;
end;
$$;

-- function: announce_ends
-- Notifies applications that listen on pgdispatch_ended of executions that have ended. The payload is their IDs,
-- separated by commas: any role may listen, and an ID is of no use without the right to read the rows. Postgres
-- limits a payload to 8,000 bytes.
create or replace function pgdispatch.announce_ends(executions uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('pgdispatch.notify', true) is distinct from 'off' and {{ template "room" }} then
        perform pg_notify('pgdispatch_ended', string_agg(e.id::text, ','))
        from unnest(executions) with ordinality as e (id, place)
        group by (e.place - 1) / 200;
    end if;
end;
$$;
