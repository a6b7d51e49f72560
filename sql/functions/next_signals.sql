-- Settles signals that the caller has sent, and returns those that it must send now: of each execution the oldest open
-- one, if its workflow runs. The others wait, which costs nothing until their turn. Taking a signal postpones its next
-- try: nobody else takes it meanwhile, and another replica does if the caller dies.
-- A signal is doubtful if commits about it may be lost: it may have been sent to run_id or to any run after it, even if
-- its workflow has ended. run_id is null then if it may have been sent to any run at all.
-- A signal that is taken or given up is so durably. Settling one as DELIVERED or OPEN is not: Temporal says it again.
-- outcomes are DELIVERED, GIVEN_UP, or OPEN: to be tried again, after a backoff if there is an error. runs are where to
-- send them from now on, or null. started are executions whose workflow the caller has started.
-- A signal whose workflow ended before the first try is given up here, with all others of its execution: one row has
-- given_up, and their number in signals. The last row has no execution; next_in is when to take again, null if no signal
-- is open, and waits is true if one waits for its workflow's start or for an earlier signal.
create or replace function pgdispatch.next_signals(settled bigint[], takes integer[], outcomes text[], errors text[], runs text[],
    started uuid[], at_most integer)
returns table (id bigint, tries integer, request_id uuid, execution_id uuid, namespace text, run_id text, name text, payload text,
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
        select e.namespace, e.run_id, e.status, q.status as item,
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
            returning s.id, s.tries, s.request_id, s.execution_id, x.namespace, s.run_id, s.name, s.payload::text,
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
