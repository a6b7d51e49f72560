-- Stored times that lie ahead because the database's clock was set back.

{{- /* For bring_back: which rows to change. The argument is their table and condition. Locked rows are left: whoever holds
them writes the new time, or they are looked at again once it has ended. */ -}}
{{ define "ahead" -}}
ctid = any (array(
            select a.ctid from pgdispatch.{{ . }}
            limit at_most for update skip locked))
{{ end }}

-- name: bring_back
-- CLAIMED -> CLAIMED
-- Brings back times that are ahead of the clock: $1 at most, of each kind. See the function. Returns how many rows it
-- changed, whether there may be more, and the transaction ID before which all transactions must have ended when it is
-- called again.
select b.times, b.more, b.open_to
from pgdispatch.bring_back($1::integer) b

-- function: bring_back
-- PENDING -> PENDING; CLAIMED -> CLAIMED. A sweeper calls it when the database's clock was set back. What waits for a
-- stored time would wait until the clock has passed it. Therefore a time that is further ahead than its own period is
-- replaced by the present one. Less than a second is ignored. A time that an application asked for is left as it is.
--
-- Returns how many rows were changed, at most at_most of each kind; whether there may be more; and the first transaction
-- ID that was not given out yet: once all earlier transactions have ended, call it again, because they may have stored
-- times from before. Changes nothing, and takes no lock, if nothing is ahead. Waits for no row. Durable, because the
-- caller remembers that it is done.
create or replace function pgdispatch.bring_back(at_most integer, out times integer, out more boolean, out open_to bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    at_time constant timestamptz := clock_timestamp();
    waits integer; -- of what replicas keep in memory
begin
    open_to := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    waits := pgdispatch.bring_back_rates(at_time, at_most);
    if waits > 0 then
        insert into pgdispatch.marks (workspaces) values (null);
        perform pgdispatch.wake();
    end if;
    times := waits + pgdispatch.bring_back_items(at_time, at_most) + pgdispatch.bring_back_turns(at_time, at_most)
        + pgdispatch.bring_back_tries(at_time, at_most);
    more := times >= at_most;
    perform pgdispatch.commit_durably() where times > 0;
end;
$$;

-- function: bring_back_items
-- For bring_back: leases, and the items that wait. A run_at that pgdispatch has set has a witness: see run_at_witness. If
-- that is ahead, the item waits from now for as long as it was to wait then. Claims and heartbeats write the current
-- time, so a claimed_at that is ahead proves that neither has happened since; a claimed item was due.
-- An item that a user's trigger or constraint does not let change does not hold up the others.
create or replace function pgdispatch.bring_back_items(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    tried constant bigint[] := array(select t.item_id from pgdispatch.start_tries t where t.tried_at > soon);
    debounced constant bigint[] := array(select k.item_id from pgdispatch.enqueue_keys k where k.debounced_at > soon);
    ahead constant bigint[] := array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'WAITS' and q.enqueue_xid >= '0' and q.run_at > soon
          and (q.created_at = q.run_at or q.failure_count > 0 or q.id = any (debounced) or q.id = any (tried))
          and pgdispatch.run_at_witness(q.id, q.run_at, q.created_at, q.failure_count) > soon
        order by q.enqueue_xid, q.workspace_id, q.priority, q.run_at -- as an index, which is read only until at_most
        limit at_most
        for update skip locked
    ) || array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'DOUBT' and q.status = 'PENDING' and q.run_at > soon
          -- Without a witness: it was due when its start was sent.
          and coalesce(pgdispatch.run_at_witness(q.id, q.run_at, q.created_at, q.failure_count), q.run_at) > soon
        order by q.run_at, q.id
        limit at_most
        for update skip locked
    ) || array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
          and q.status = 'CLAIMED' and (q.claimed_at > soon or q.run_at > soon)
        order by q.lease_token
        limit at_most
        for update skip locked
    );
    item bigint;
    brought integer := 0;
begin
    if ahead = '{}' then
        return 0;
    end if;
    begin
        return pgdispatch.bring_back_some(ahead, at_time);
    exception
        when lock_not_available or deadlock_detected then raise;
        when others then null; -- which one, the loop finds out
    end;
    foreach item in array ahead loop
        begin
            brought := brought + pgdispatch.bring_back_some(array[item], at_time);
        exception
            when others then null;
        end;
    end loop;
    return brought;
end;
$$;

-- function: bring_back_some
-- For bring_back_items: changes these items, which the caller has locked, and their witnesses. A lease starts again from
-- now: no living holder assumes a later expiry than the one set here, and holders renew it as usual.
create or replace function pgdispatch.bring_back_some(ids bigint[], at_time timestamptz) returns integer
language sql volatile
as $$
    with brought as (
        update pgdispatch.workflow_execution_queue q
        set run_at = least(q.run_at, at_time + case when q.status = 'PENDING'
                then coalesce(q.run_at - pgdispatch.run_at_witness(q.id, q.run_at, q.created_at, q.failure_count), '0') else '0' end),
            created_at = least(q.created_at, at_time),
            claimed_at = case when q.claimed_at > at_time then at_time else q.claimed_at end,
            lease_expires_at = case when q.claimed_at > at_time then at_time + (q.lease_expires_at - q.claimed_at) else q.lease_expires_at end
        where q.id = any (ids)
        returning 1
    ), failed as (
        update pgdispatch.item_failures f set failed_at = at_time where f.item_id = any (ids) and f.failed_at > at_time
    ), tried as (
        update pgdispatch.start_tries t set tried_at = least(t.tried_at, at_time), since = least(t.since, at_time)
        where t.item_id = any (ids) and greatest(t.tried_at, t.since) > at_time
    ), debounced as (
        update pgdispatch.enqueue_keys k set debounced_at = at_time where k.item_id = any (ids) and k.debounced_at > at_time
    )
    select count(*)::integer from brought;
$$;

-- function: run_at_witness
-- For bring_back_items: the time at which pgdispatch set an item's run_at. That is created_at if the application asked
-- for no time, that of the last failure, that of the last release with a delay, or that of the last debounce. Null if the
-- application asked for it.
create or replace function pgdispatch.run_at_witness(item bigint, run_at timestamptz, created_at timestamptz, failures integer)
returns timestamptz
language sql stable
as $$
    select max(w.at)
    from (select run_at_witness.created_at as at where run_at_witness.run_at = run_at_witness.created_at
          union all
          select least(f.failed_at, run_at_witness.run_at) from pgdispatch.item_failures f
          where f.item_id = item and f.failure = failures
            -- 6 minutes is the longest delay, see dispatch/namespaces.go; failed_at is read after run_at
            and f.failed_at between run_at_witness.run_at - interval '6 minutes' and run_at_witness.run_at + interval '1 second'
          union all
          select least(t.tried_at, run_at_witness.run_at) from pgdispatch.start_tries t
          where t.item_id = item -- 31 seconds: the longest delay, see dispatch/evidence.go
            and t.tried_at between run_at_witness.run_at - interval '31 seconds' and run_at_witness.run_at + interval '1 second'
          union all
          select least(k.debounced_at, run_at_witness.run_at) from pgdispatch.enqueue_keys k
          where k.item_id = item and k.debounced_at is not null) w;
$$;

-- function: bring_back_rates
-- For bring_back: counts starts that lie ahead as starts of now, and makes such parked items due now. Takes the lock of
-- claims, because only claims write what rates count.
create or replace function pgdispatch.bring_back_rates(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    brought integer;
begin
    if not exists (select from pgdispatch.rates r where r.at > soon)
       and not exists (select from pgdispatch.limit_starts s where s.until > soon + s.per / 20)
       and not exists (select from pgdispatch.parked_items p where p.try_at > soon + least(p.tries, 15) * interval '1 minute') then
        return 0;
    end if;
    lock table pgdispatch.claim_lock in share row exclusive mode;
    with buckets as (
        update pgdispatch.rates set at = at_time
        where {{ template "ahead" "rates a where a.at > soon" }}
        returning 1
    ), parked as (
        update pgdispatch.parked_items set try_at = at_time
        where {{ template "ahead" "parked_items a where a.try_at > soon + least(a.tries, 15) * interval '1 minute'" }}
        returning 1
    ), starts as (
        delete from pgdispatch.limit_starts
        where {{ template "ahead" "limit_starts a where a.until > soon + a.per / 20" }}
        returning limit_id, per, items
    ), counted as (
        insert into pgdispatch.limit_starts as s (limit_id, per, until, items)
        select d.limit_id, d.per, date_bin(d.per / 20, at_time, timestamptz '2000-01-01 00:00Z') + d.per / 20, sum(d.items)
        from starts d
        group by d.limit_id, d.per
        on conflict (limit_id, per, until) do update set items = s.items + excluded.items
    )
    select count(*) into brought from (select 1 from buckets union all select 1 from parked union all select 1 from starts) b;
    return brought;
end;
$$;

-- function: bring_back_tries
-- For bring_back: signals, stop requests and running executions. A request that was never tried becomes due now. Another
-- one may be under way, and becomes due after the longest backoff. An execution counts as started, or asked about, now.
create or replace function pgdispatch.bring_back_tries(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    backoff constant interval := '30 seconds'; -- the longest, in settle_signals and take_stops
    brought integer;
begin
    with turn as (
        update pgdispatch.signal_turn set looked_at = at_time
        where {{ template "ahead" "signal_turn a where a.looked_at > soon" }}
        returning 1
    ), signals as (
        update pgdispatch.signals set next_try_at = at_time + case when tries > 0 then backoff else '0' end
        where {{ template "ahead" `signals a where a.state = 'OPEN' and a.next_try_at < 'infinity'
              and a.next_try_at > soon + case when a.tries > 0 then backoff else '0' end` }}
        returning 1
    ), stops as (
        update pgdispatch.stop_requests set next_try_at = at_time + case when tries > 0 then backoff else '0' end
        where {{ template "ahead" `stop_requests a where a.state = 'OPEN'
              and a.next_try_at > soon + case when a.tries > 0 then backoff else '0' end` }}
        returning 1
    ), executions as (
        update pgdispatch.workflow_executions
        set started_at = case when started_at > at_time then at_time else started_at end,
            asked_at = case when asked_at > at_time then at_time else asked_at end,
            first_sent_at = case when first_sent_at > at_time then at_time else first_sent_at end
        where {{ template "ahead" `workflow_executions a where a.finished_at is null
              and greatest(a.started_at, a.asked_at, a.first_sent_at) > soon` }}
        returning 1
    )
    select count(*) into brought
    from (select from turn union all select from signals union all select from stops union all select from executions) b;
    return brought;
end;
$$;

-- function: bring_back_turns
-- For bring_back: what is recorded as done at a time ahead counts as done now. The minutes of the plots are deleted
-- instead: otherwise the present minutes would count as recorded.
create or replace function pgdispatch.bring_back_turns(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    brought integer;
begin
    with close_sweep as (
        update pgdispatch.close_sweep set looked_at = at_time
        where {{ template "ahead" "close_sweep a where a.looked_at > soon" }}
        returning 1
    ), close_lists as ( -- swept_to is Temporal's time; a list that begins earlier only costs more
        update pgdispatch.close_lists
        set wide_at = least(wide_at, at_time), swept_to = case when swept_to > at_time then at_time else swept_to end
        where {{ template "ahead" "close_lists a where greatest(a.wide_at, a.swept_to) > soon" }}
        returning 1
    ), mark_trim as (
        update pgdispatch.mark_trim set next_at = at_time
        where {{ template "ahead" "mark_trim a where a.next_at > soon + interval '30 seconds'" }}
        returning 1
    ), retention_walk as (
        update pgdispatch.retention_walk set next_pass_at = at_time
        where {{ template "ahead" "retention_walk a where a.next_pass_at > soon + interval '1 minute'" }}
        returning 1
    ), stall_look as (
        update pgdispatch.stall_look set looked_at = at_time
        where {{ template "ahead" "stall_look a where a.looked_at > soon" }}
        returning 1
    ), stalls as (
        update pgdispatch.stalls set since = at_time
        where {{ template "ahead" "stalls a where a.since > soon" }}
        returning 1
    ), replicas as (
        update pgdispatch.replicas set renewed_at = at_time, expires_at = at_time + (expires_at - renewed_at)
        where {{ template "ahead" "replicas a where a.renewed_at > soon" }}
        returning 1
    ), activity as (
        delete from pgdispatch.activity
        where {{ template "ahead" "activity a where a.minute > soon" }}
        returning 1
    ), workspace_activity as (
        delete from pgdispatch.workspace_activity
        where {{ template "ahead" "workspace_activity a where a.at > soon" }}
        returning 1
    ), limit_activity as (
        delete from pgdispatch.limit_activity
        where {{ template "ahead" "limit_activity a where a.minute > soon" }}
        returning 1
    )
    select count(*) into brought
    from (select from close_sweep union all select from close_lists union all select from mark_trim union all select from retention_walk
          union all select from stall_look union all select from stalls union all select from replicas
          union all select from activity union all select from workspace_activity union all select from limit_activity) b;
    return brought;
end;
$$;

-- function: bring_back_ended
-- For delete_finished: items that ended, and dead letters that were handled, after the time `later` are from before the
-- clock was set back: see bring_back. Their retention begins now.
create or replace function pgdispatch.bring_back_ended(ids bigint[], at_time timestamptz, later timestamptz) returns void
language sql volatile
as $$
    update pgdispatch.workflow_execution_queue q set finished_at = at_time
    where q.id = any (array(
        select e.id from pgdispatch.workflow_execution_queue e where e.id = any (ids) and e.finished_at > later for update skip locked));
    update pgdispatch.dead_letter_marks m set marked_at = at_time where m.item_id = any (ids) and m.marked_at > later;
$$;
