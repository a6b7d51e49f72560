-- Signals to running workflows: accepted in the transaction of an application, delivered by replicas.

-- name: signal_take
-- writes signals
-- $1 to $5 signals to settle, with the try, outcome, error and run of each; $6 executions started since; $7 at most.
-- Returns what next_signals returns.
select t.id, t.tries, t.request_id::text, t.execution_id::text, t.workflow_id, t.started_run as run_id, t.namespace,
       t.run_id as send_to, t.name, t.payload, t.waited, t.given_up, t.signals,
       t.next_in, t.waits, t.doubtful as unanswered
from pgdispatch.next_signals($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[]::uuid[], $7) t

-- function: signal
-- Sends a signal to an execution's workflow if the caller's transaction commits, and returns the signal's id. Replicas
-- deliver an execution's signals in the order of their ids: at once, or after the start if the workflow has not been
-- started yet.
create or replace function pgdispatch.signal(execution_id uuid, name text, payload jsonb default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    known record;
    signal_id bigint;
begin
    if name is null or octet_length(name) not between 1 and 1000 or name ~ '[[:cntrl:]]' then
        raise exception 'the name of a signal must have 1 to 1000 bytes and no control characters'
            using errcode = 'PGD40', hint = 'Use the name that the workflow listens to.';
    elsif octet_length(payload::text) > 1966080 then
        raise exception 'payload has % bytes as text, which exceeds the limit of 1966080', octet_length(payload::text)
            using errcode = 'PGD41', hint = 'Store the value elsewhere and pass its key.';
    end if;
    select q.status, e.finished_at, coalesce(e.kind, d.kind) as kind, q.enqueue_xid = pg_current_xact_id_if_assigned() as is_new into known
    from (select signal.execution_id as id) x
    left join pgdispatch.workflow_execution_queue q on q.execution_id = x.id
    left join pgdispatch.workflow_executions e on e.id = x.id
    left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
    where num_nonnulls(q.id, e.id) > 0 and not pgdispatch.kept_out(coalesce(q.workspace_id, e.workspace_id));
    if not found then
        raise exception 'no item has execution %', coalesce(signal.execution_id::text, 'null')
            using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.workflow_execution_queue.';
    elsif known.finished_at is not null or known.status in ('COMPLETED', 'FAILED', 'CANCELLED') then
        raise exception 'execution % has ended and takes no signals', signal.execution_id
            using errcode = 'PGD42', hint = 'Replay its item if it is FAILED, or insert a new one.';
    elsif known.kind = 'activity' then
        raise exception 'execution % is an activity and takes no signals', signal.execution_id
            using errcode = 'PGD44', hint = 'Only workflows take signals. Cancel the activity with pgdispatch.request_cancel.';
    end if;
    -- A new item is not started before this transaction commits.
    insert into pgdispatch.signals as s (execution_id, name, payload, next_try_at)
    values (signal.execution_id, signal.name, signal.payload, case when known.is_new then 'infinity' else clock_timestamp() end)
    returning s.id into signal_id;
    if current_setting('pgdispatch.notify', true) is distinct from 'off' and {{ template "room" }} then
        perform pg_notify('pgdispatch_signal', '');
    end if;
    return signal_id;
end;
$$;

-- function: signal_workflow
-- Sends a signal, as signal does, to the newest item of the workspace that names the workflow ID and has not ended.
create or replace function pgdispatch.signal_workflow(workspace uuid, workflow_id text, name text, payload jsonb default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
declare
    execution uuid;
begin
    select q.execution_id into execution
    from pgdispatch.workflow_execution_queue q
    where q.workflow_id = signal_workflow.workflow_id and q.workspace_id = workspace and q.stage in ('WAITS', 'HOLDS', 'DOUBT')
      and not pgdispatch.kept_out(workspace)
    order by q.id desc limit 1;
    if not found then
        raise exception 'no item of workspace % with workflow_id % waits or runs', coalesce(workspace::text, 'null'),
                coalesce(quote_literal(signal_workflow.workflow_id), 'null')
            using errcode = 'PGD44', hint = 'Use the workflow_id of an item that has not ended, or pgdispatch.signal with its execution_id.';
    end if;
    return pgdispatch.signal(execution, name, payload);
end;
$$;

-- function: next_signals
-- Settles signals that the caller has sent, and returns those that it must send now: of each execution the oldest open
-- one, if its workflow runs. The others wait, which costs nothing until their turn. Taking a signal postpones its next
-- try: nobody else takes it meanwhile, and another replica does if the caller dies.
-- A signal is unanswered, which the column calls doubtful, if commits about it may be lost: it may have been sent to
-- run_id or to any run after it, even if its workflow has ended. run_id is null then if that may be any run at all.
-- A signal that is taken or given up is so durably. Settling one as DELIVERED or OPEN is not: Temporal says it again.
-- outcomes are DELIVERED, GIVEN_UP, or OPEN: to be tried again, after a backoff if there is an error. runs are where to
-- send them from now on, or null. started are executions whose workflow the caller has started.
-- A signal whose workflow ended before the first try is given up here, with all others of its execution: one row has
-- given_up, and their number in signals. The last row has no execution; next_in is when to take again, null if no signal
-- is open, and waits is true if one waits for its workflow's start or for an earlier signal.
drop function if exists pgdispatch.next_signals(bigint[], integer[], text[], text[], text[], uuid[], integer); -- it returned other columns
create or replace function pgdispatch.next_signals(settled bigint[], takes integer[], outcomes text[], errors text[], runs text[],
    started uuid[], at_most integer)
returns table (id bigint, tries integer, request_id uuid, execution_id uuid, namespace text, workflow_id text, started_run text,
    run_id text, name text, payload text,
    waited interval, given_up text, signals integer, next_in interval, waits boolean, doubtful boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    look_again constant interval := '10 seconds'; -- as in settle_signals
    lease constant interval := '15 seconds'; -- longer than temporal.SignalTimeout
    at_time timestamptz; -- a variable, because no index is searched for a volatile function
    signal record;
    x record;
begin
    perform pgdispatch.commit_durably() where 'GIVEN_UP' = any (outcomes);
    perform pgdispatch.settle_signals(settled, takes, outcomes, errors, runs, started);
    at_time := clock_timestamp();
    for signal in
        select s.* from pgdispatch.signals s
        where s.state = 'OPEN' and s.next_try_at <= at_time and at_most > 0
        order by s.next_try_at, s.id
        limit at_most + 200
        for update skip locked
    loop
        exit when at_most = 0;
        select e.namespace, e.workflow_id, e.run_id, e.status, q.status as item,
               signal.id <= (select t.doubtful_to from pgdispatch.signal_turn t) as doubtful,
               exists (select from pgdispatch.signals o
                       where o.execution_id = signal.execution_id and o.state = 'OPEN' and o.id < signal.id) as behind,
               (select o.run_id from pgdispatch.signals o
                where o.execution_id = signal.execution_id and o.id < signal.id order by o.id desc limit 1) as last_run
        into x
        from (select signal.execution_id as id) s
        left join pgdispatch.workflow_executions e on e.id = s.id
        left join pgdispatch.workflow_execution_queue q on q.execution_id = s.id;
        if x.behind or x.item in ('PENDING', 'CLAIMED') then
            update pgdispatch.signals s set next_try_at = 'infinity' where s.id = signal.id;
        elsif x.status = 'RUNNING' or signal.tries > 0 or x.doubtful and x.run_id is not null then
            -- Temporal knows whether an earlier try has arrived.
            at_most := at_most - 1;
            perform pgdispatch.commit_durably();
            return query
            update pgdispatch.signals s
            set tries = s.tries + 1, next_try_at = clock_timestamp() + lease,
                run_id = coalesce(s.run_id, x.last_run, case when not x.doubtful then x.run_id end)
            where s.id = signal.id
            returning s.id, s.tries, s.request_id, s.execution_id, x.namespace, x.workflow_id, x.run_id, s.run_id, s.name, s.payload::text,
                      clock_timestamp() - s.sent_at, null::text, null::integer, null::interval, null::boolean, x.doubtful;
        else
            given_up := case x.item
                when 'CANCELLED' then 'item was cancelled before it started'
                when 'FAILED' then case when x.run_id is null then 'item failed before its workflow was started' else 'workflow had ended' end
                when 'COMPLETED' then 'workflow had ended'
                else case when x.run_id is null then 'item was deleted before it started' else 'workflow had ended' end end;
            update pgdispatch.signals s set state = 'GIVEN_UP', settled_at = clock_timestamp(), error = given_up
            where s.execution_id = signal.execution_id and s.state = 'OPEN' and s.tries = 0;
            get diagnostics signals = row_count;
            continue when signals = 0; -- it was given up with an earlier one
            perform pgdispatch.commit_durably();
            execution_id := signal.execution_id;
            return next;
        end if;
    end loop;

    execution_id := null; given_up := null; signals := null;
    select least(s.next_try_at, clock_timestamp() + look_again) - clock_timestamp() into next_in
    from pgdispatch.signals s where s.state = 'OPEN' order by s.next_try_at limit 1;
    waits := exists (select from pgdispatch.signals s where s.state = 'OPEN' and s.next_try_at = 'infinity');
    return next;
end;
$$;

-- function: settle_signals
-- The first step of next_signals, which says what the arguments are: settles signals, and makes those due that waited
-- for them or for a start. If an epoch has begun, all signals until now are in doubt. Until its end, no other transaction
-- settles or takes any, and each statement of this one sees what the last one has committed.
create or replace function pgdispatch.settle_signals(settled bigint[], takes integer[], outcomes text[], errors text[], runs text[],
    started uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    look_again constant interval := '10 seconds';
    page constant integer := 5000;
    turn record;
    woken uuid[];
begin
    select t.looked_at, t.after_id, (t.epoch = e.id) is not true as epoch_began into turn
    from pgdispatch.signal_turn t
    left join pgdispatch.epoch e on true
    for update of t;
    if turn.epoch_began then
        {{ template "begin_epoch" }};
        update pgdispatch.signal_turn
        set epoch = (select e.id from pgdispatch.epoch e), doubtful_to = coalesce((select max(s.id) from pgdispatch.signals s), 0);
    end if;

    with done as (
        update pgdispatch.signals s
        set state = r.outcome, settled_at = case when r.outcome <> 'OPEN' then clock_timestamp() end, error = r.error,
            run_id = coalesce(r.run_id, s.run_id),
            next_try_at = clock_timestamp() + case when r.error is null then interval '0'
                else least(interval '1 second' * 2 ^ least(s.tries - 1, 10), interval '30 seconds') end
        from unnest(settled, takes, outcomes, errors, runs) as r (id, take, outcome, error, run_id)
        where s.id = r.id and s.state = 'OPEN' and (s.tries = r.take or r.outcome = 'DELIVERED')
        returning s.execution_id, s.state
    )
    select array_agg(distinct d.execution_id) into woken
    from (select d.execution_id from done d where d.state <> 'OPEN' union all select unnest(started)) d;
    update pgdispatch.signals s set next_try_at = clock_timestamp()
    where s.next_try_at = 'infinity' and s.id = any (array(
        select (select min(o.id) from pgdispatch.signals o where o.execution_id = w.id and o.state = 'OPEN') from unnest(woken) as w (id)));

    if turn.looked_at < clock_timestamp() - look_again then
        -- Those that wait for nothing any more: the replica that was to say so died, or is of an older version, or the
        -- item ended unstarted.
        with looked as materialized (
            select s.id, s.execution_id from pgdispatch.signals s
            where s.state = 'OPEN' and s.next_try_at = 'infinity' and s.id > turn.after_id
            order by s.id limit page
        ), missed as (
            update pgdispatch.signals s set next_try_at = clock_timestamp()
            where s.id = any (array(
                select l.id from looked l
                where not exists (select from pgdispatch.workflow_execution_queue q
                                  where q.execution_id = l.execution_id and q.status in ('PENDING', 'CLAIMED'))
                  and not exists (select from pgdispatch.signals o where o.execution_id = l.execution_id and o.state = 'OPEN' and o.id < l.id)))
        )
        update pgdispatch.signal_turn
        set looked_at = clock_timestamp(), after_id = coalesce((select max(l.id) from looked l having count(*) = page), 0);
    end if;
end;
$$;

-- function: resend_signal
-- Sends a signal that was given up again, as a new signal, and deletes the given-up one, so that it is sent again at
-- most once. It goes to its execution or, if that failed and was replayed, to the newest replay; former is its execution
-- before. To the same execution it keeps its request ID and run: Temporal drops it if an earlier try did arrive.
create or replace function pgdispatch.resend_signal(signal_id bigint, out id bigint, out execution_id uuid, out former uuid, out name text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    old pgdispatch.signals;
    later uuid;
begin
    delete from pgdispatch.signals s where s.id = signal_id and s.state = 'GIVEN_UP' returning s.* into old;
    if not found then
        raise exception 'signal % was not given up, or was sent again', coalesce(signal_id::text, 'null')
            using errcode = 'PGD43', hint = 'Use the id of a row of pgdispatch.signals whose state is GIVEN_UP.';
    end if;
    execution_id := old.execution_id;
    loop -- the chain of replays, as in replay
        select r.execution_id into later
        from pgdispatch.workflow_execution_queue q
        join pgdispatch.dead_letter_marks m on m.item_id = q.id and m.mark = 'REPLAYED'
        join pgdispatch.workflow_execution_queue r on r.id = m.replay_id and r.status <> 'CANCELLED'
        where q.execution_id = resend_signal.execution_id;
        exit when not found;
        execution_id := later;
    end loop;
    former := old.execution_id;
    name := old.name;
    id := pgdispatch.signal(execution_id, old.name, old.payload);
    if execution_id = former then
        update pgdispatch.signals s set request_id = old.request_id, run_id = old.run_id where s.id = resend_signal.id;
    end if;
end;
$$;
