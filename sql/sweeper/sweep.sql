-- What one sweep does, by whichever replica has its turn.

{{- /* The leases that a search from leased_from on finds: see trim_marks. */ -}}
{{ define "leases" -}}
with leases as materialized (
    select count(*) filter (where q.status = 'CLAIMED' and q.lease_expires_at <= clock_timestamp()) as expired,
           min(q.lease_expires_at) filter (where q.status = 'CLAIMED' and q.lease_expires_at > clock_timestamp()) as next_expiry,
           coalesce(min(q.lease_token) filter (where q.status = 'CLAIMED'), max(q.lease_token) filter (where q.status = 'DISPATCHED') + 1) as leased
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
)
{{- end }}
{{- /* Whether the present minute is recorded. */ -}}
{{ define "minute_noted" -}}
exists (select from pgdispatch.activity a
               where a.minute = date_trunc('minute', clock_timestamp()) and a.waiting is not null)
{{- end }}
{{- /* Adds the part that has just failed to failing, with its error. */ -}}
{{ define "part_failed" -}}
failing := failing || jsonb_build_object(part, format('%s (SQLSTATE %s)', sqlerrm, sqlstate))
{{- end }}

-- name: sweep
-- CLAIMED -> PENDING; PENDING -> CANCELLED
-- $1 at most, $2 replica. Returns how many leases had expired, how many items were cancelled because they were not claimed
-- before their start_before, which of these two parts failed, how long until the next lease, replica or start_before
-- expires (null: there is none), the database's time, the first transaction ID that may still be open, and the epoch
-- ('': none). Also what else there is to do, so that an idle replica asks for nothing more: how many executions are open,
-- how many this replica is to watch, whether some have no live watcher, open stop requests and signals, whether retention
-- is on, whether ends are notified, whether there is housework (see housekeep), the namespaces of which many executions are
-- missing in Temporal and those of definitions ('': some name none), and the use of the notification queue; asking empties
-- it of what all have read.
{{ template "leases" }}
select d.requeued, d.late, d.failing,
       least(l.next_expiry, r.next_expiry, (
           select q.start_before from pgdispatch.workflow_execution_queue q
           where q.stage = 'WAITS' and q.failure_count = 0 and q.start_before > statement_timestamp()
           order by q.start_before limit 1)) - clock_timestamp() as next_expiry_in,
       clock_timestamp() as now,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_open,
       coalesce((select e.id::text from pgdispatch.epoch e), '') as epoch,
       running.executions as open,
       running.mine,
       running.unwatched,
       exists (select from pgdispatch.stop_requests r where r.state = 'OPEN') as stops,
       exists (select from pgdispatch.signals s where s.state = 'OPEN') as signals,
       s.retention is not null or s.dead_letter_retention is not null as deletes,
       s.notify_ended as announces,
       not {{ template "minute_noted" }} or pgdispatch.marks_due(l.leased) as housework,
       pgdispatch.vanished() as vanished, pgdispatch.namespaces_in_use() as namespaces, pg_notification_queue_usage() as notify_queue
from leases l
cross join (select min(r.expires_at) filter (where r.expires_at > clock_timestamp()) as next_expiry from pgdispatch.replicas r) r -- then unwatched
cross join pgdispatch.settings s
cross join lateral pgdispatch.sweep_due(l.expired > 0,
    exists (select from pgdispatch.workflow_execution_queue q
            where q.stage = 'WAITS' and q.failure_count = 0 and q.start_before <= statement_timestamp()), $1) d
cross join (
    select count(*) as executions,
           count(*) filter (where e.watcher = $2) as mine,
           coalesce(bool_or(e.watcher is null
               or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()))), false) as unwatched
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING'
) running

-- name: housekeep
-- writes statistics and marks
-- What nobody waits for, apart from a sweep, so that no failure of it holds up recovery. Returns the parts that failed, with
-- their errors. See keep_house.
{{ template "leases" }}
select pgdispatch.keep_house(l.leased) as failing from leases l

-- function: sweep_due
-- CLAIMED -> PENDING; PENDING -> CANCELLED. Requeues expired leases and cancels late items, if there are any. A part that
-- fails undoes nothing of the other.
create or replace function pgdispatch.sweep_due(expired boolean, overdue boolean, at_most integer,
    out requeued integer, out late integer, out failing jsonb)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    part text;
begin
    requeued := 0;
    late := 0;
    failing := '{}';
    if expired then
        part := 'leases';
        begin
            requeued := pgdispatch.requeue_expired(at_most);
        exception when others then {{ template "part_failed" }};
        end;
    end if;
    if overdue then
        part := 'start_before';
        begin
            late := pgdispatch.cancel_late(at_most);
        exception when others then {{ template "part_failed" }};
        end;
    end if;
end;
$$;

-- function: keep_house
-- Counts and trims marks. Once a minute, records how many items wait (due, not unanswered), are claimed and run, and how
-- limits are used, and deletes what is older than a day, of workspaces at most 50,000 rows: two and a half times what
-- 100,000 of them add in a minute; also the tries of items that wait no longer, and executions that are missing no longer.
-- Returns the parts that failed, with their errors: one that fails undoes nothing of the others.
create or replace function pgdispatch.keep_house(leased bigint) returns jsonb
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    present constant timestamptz := date_trunc('minute', clock_timestamp());
    noted constant boolean := {{ template "minute_noted" }};
    failing jsonb := '{}';
    part text;
begin
    -- Every sweep locks the present minute before the old rows.
    foreach part in array array['marks', 'depth', 'limits', 'activity', 'start_tries', 'missing_executions'] loop
        continue when noted and part <> 'marks';
        begin
            case part
            when 'marks' then
                perform pgdispatch.trim_marks(leased);
            when 'depth' then
                insert into pgdispatch.activity as a (minute, waiting, claimed, running)
                select present, d.waiting, d.claimed, d.dispatched
                from pgdispatch.queue_counts(10000) d
                on conflict (minute) do update
                set waiting = excluded.waiting, claimed = excluded.claimed, running = excluded.running
                where a.waiting is null;
            when 'limits' then
                perform pgdispatch.note_limits(present);
            when 'activity' then
                delete from pgdispatch.activity a where a.minute < present - interval '1 day';
                delete from pgdispatch.workspace_activity a
                where a.ctid = any (array(
                    select o.ctid from pgdispatch.workspace_activity o where o.at < present - interval '1 day' order by o.at limit 50000));
            when 'start_tries' then
                delete from pgdispatch.start_tries t
                where t.item_id = any (array(
                    select o.item_id from pgdispatch.start_tries o
                    cross join lateral (select q.status from pgdispatch.workflow_execution_queue q where q.id = o.item_id offset 0) i
                    where i.status not in ('PENDING', 'CLAIMED') limit 10000));
            when 'missing_executions' then
                delete from pgdispatch.missing_executions m
                where m.execution_id = any (array(
                    select o.execution_id from pgdispatch.missing_executions o
                    left join lateral (
                        select e.finished_at is null as open from pgdispatch.workflow_executions e where e.id = o.execution_id offset 0
                    ) e on true
                    where e.open is not true or o.asked_at < clock_timestamp() - interval '1 day' limit 10000));
            end case;
        exception when others then {{ template "part_failed" }};
        end;
    end loop;
    return failing;
end;
$$;

-- function: note_limits
-- Records how the most used limits are used in a minute, at most 100 of them, and since when each has been full. A limit
-- that was full in a sample of the last five minutes has been so since. Deletes what is older than an hour.
create or replace function pgdispatch.note_limits(present timestamptz) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    delete from pgdispatch.limit_activity a where a.minute < present - interval '1 hour';
    insert into pgdispatch.limit_activity (minute, limit_id, active, waiting, full_since)
    select present, l.id, l.active, l.items,
           case when l.paused or l.active >= l.max_concurrent or l.starts_left <= 0 then coalesce(b.full_since, clock_timestamp()) end
    from pgdispatch.limits_used(10000, 100) l
    left join lateral (
        select a.full_since from pgdispatch.limit_activity a
        where a.limit_id = l.id and a.minute between present - interval '5 minutes' and present - interval '1 minute'
        order by a.minute desc limit 1
    ) b on true
    where l.id is not null
    order by l.id
    on conflict do nothing;
$$;

-- function: marks_due
-- Whether trim_marks has something to do. Writes nothing.
create or replace function pgdispatch.marks_due(leased bigint) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
    select exists (
        select from pgdispatch.mark_trim t
        where leased > t.leased_from + 100 or t.leased_from > coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0) + 1
           or pg_snapshot_xmax(t.counted) > pg_snapshot_xmax(pg_current_snapshot())
           or exists (select from pgdispatch.marks m where m.xid >= t.trimmed_to))
$$;

-- function: trim_marks
-- Called by keep_house: counts the ends that marks record, deletes marks that every replica has had time to read, and
-- keeps leased_from up to date. One sweep at a time does it, and the others skip it. The ends are counted before their
-- marks are deleted, in one transaction, so each end counts once, whoever reported it.
--
-- leased is the lowest lease_token of a CLAIMED item that the sweep has seen at or above leased_from or, without one,
-- one more than the highest token of a DISPATCHED item there; null without either. It is a lower bound for all leases,
-- now and later: claims draw tokens under claim_lock and hold it until their commit, so a claim that the sweep did not
-- see has higher tokens. The last value of the sequence is no such bound: a claim in progress may have drawn it.
create or replace function pgdispatch.trim_marks(leased bigint) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    last_token constant bigint := coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0);
    book pgdispatch.mark_trim;
    seen pg_snapshot;
    sees pg_snapshot;
    ends bigint[];
    due boolean;
    restored boolean; -- into another cluster, with transaction IDs of its own
    raised bigint;
begin
    -- First without the lock, which would be a write: an idle queue must not write.
    if not pgdispatch.marks_due(leased) then
        return;
    end if;
    select t.* into book from pgdispatch.mark_trim t for update skip locked;
    if not found then
        return;
    end if;
    -- If the database was copied without its sequences, nothing is known.
    raised := case when book.leased_from > last_token + 1 then 0 else greatest(book.leased_from, leased) end;
    restored := pg_snapshot_xmax(book.counted) > pg_snapshot_xmax(pg_current_snapshot());
    seen := case when restored then '1:1:' else book.counted end;
    due := restored or book.next_at <= clock_timestamp();

    with ended as materialized (
        select m.*
        from (select pg_snapshot_xmax(seen) as first_xid, -- transactions that may have ended since
                     greatest(pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id_if_assigned()) as last_xid
              union all
              select x.xid, x.xid from pg_snapshot_xip(seen) as x (xid)) span
        cross join lateral (
            select m.* from pgdispatch.marks m
            where m.xid between span.first_xid and case when restored then '18446744073709551615' else span.last_xid end offset 0
        ) m
        where m.completed + m.failed + m.cancelled > 0
          and (pg_visible_in_snapshot(m.xid, pg_current_snapshot()) or restored and m.xid >= pg_snapshot_xmax(pg_current_snapshot()))
    ), noted as (
        insert into pgdispatch.workspace_activity as a (at, workspace_id, completed, failed, cancelled)
        select date_bin('5 minutes', statement_timestamp(), 'epoch'), w.id, sum(coalesce(w.completed, e.completed)),
               sum(coalesce(w.failed, e.failed)), sum(e.cancelled)
        from ended e
        cross join lateral unnest(e.workspaces, e.completed_of, e.failed_of) as w (id, completed, failed)
        where e.completed_of is not null or cardinality(e.workspaces) = 1
        group by w.id order by w.id -- as workspace_activity_note
        on conflict (at, workspace_id) do update
        set completed = a.completed + excluded.completed, failed = a.failed + excluded.failed,
            cancelled = a.cancelled + excluded.cancelled
    )
    select pg_current_snapshot(), array[sum(e.completed), sum(e.failed), sum(e.cancelled)] into sees, ends from ended e;
    if ends[1] + ends[2] + ends[3] > 0 then
        insert into pgdispatch.activity as a (minute, completed, failed, cancelled)
        values (date_trunc('minute', clock_timestamp()), ends[1], ends[2], ends[3])
        on conflict (minute) do update
        set completed = a.completed + excluded.completed, failed = a.failed + excluded.failed, cancelled = a.cancelled + excluded.cancelled;
    elsif not due and raised between book.leased_from and book.leased_from + 100 then
        return; -- not worth a new version of the row
    end if;

    if restored then -- marks left from the other cluster
        delete from pgdispatch.marks m where m.xid >= pg_snapshot_xmax(pg_current_snapshot());
    elsif due then
        delete from pgdispatch.marks m where m.xid < book.next_to;
    end if;
    update pgdispatch.mark_trim
    set counted = sees, leased_from = raised,
        trimmed_to = case when restored then '0' when due then book.next_to else trimmed_to end,
        next_to = case when due then pg_snapshot_xmin(sees) else next_to end,
        next_at = case when due then clock_timestamp() + interval '30 seconds' else next_at end;
end;
$$;
