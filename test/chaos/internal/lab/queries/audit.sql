-- Records every change of an item and of a limit with its transaction, so that the state at each commit can be
-- replayed in commit order. Needs track_commit_timestamp = on.
create schema chaos;

-- How far this server's clock is ahead of the machine's. All times here are the machine's, except lease expiries.
create function chaos.ahead() returns interval
language sql stable
return coalesce(nullif(current_setting('chaos.ahead', true), ''), '0')::interval;

create table chaos.changes (
    seq         bigint generated always as identity primary key,
    -- item, workspace, settings or key.
    kind        text not null,
    -- The item or the limit of a key.
    item        bigint,
    execution   uuid,
    workspace   uuid,
    -- The item's limit key, or the key of the limit.
    key         text,
    -- The key and the number of the call of pgdispatch.enqueue that the item's params are of.
    policy_key  text,
    marker      text,
    old_status  text,
    new_status  text,
    old_token   bigint,
    new_token   bigint,
    -- Whether the item holds a slot of its workspace.
    old_holds   boolean,
    new_holds   boolean,
    old_owner   text,
    new_owner   text,
    old_lease   timestamptz,
    new_lease   timestamptz,
    -- The time that the settling statement itself wrote into the item, before it waited for anything.
    moved_at    timestamptz,
    -- The item's, by this server's own clock.
    start_before timestamptz,
    -- The new values of a workspace, of the settings, or of the limit of a key. Nulls of a limit mean that there is none.
    new_limit   integer,
    new_paused  boolean,
    new_rate    float8,
    new_starts  integer[],
    new_periods float8[], -- in seconds
    -- How long the settings keep ended items, and failed ones, in seconds. Null means forever.
    new_keep    float8,
    new_keep_failed float8,
    began       timestamptz not null default transaction_timestamp() - chaos.ahead(),
    at          timestamptz not null default clock_timestamp() - chaos.ahead(),
    ahead       interval not null default chaos.ahead(),
    xid         xid8 not null default pg_current_xact_id()
);

create index changes_at on chaos.changes (at);
create index changes_execution on chaos.changes (execution);
create index changes_item on chaos.changes (item);

create function chaos.holds(status text, outcome_unknown boolean) returns boolean
language sql immutable
return coalesce(status in ('CLAIMED', 'DISPATCHED') or (status = 'PENDING' and outcome_unknown), false);

-- What was deleted after its end.
create table chaos.gone_items as select * from pgdispatch.workflow_execution_queue with no data;
create table chaos.gone_executions as select * from pgdispatch.workflow_executions with no data;

-- Every item with its execution, in its last state.
create view chaos.found as
with item as (
    select q.id, q.execution_id, q.workspace_id, q.status, q.failure_count, q.attempt_count, q.last_error, e.error, e.result_note, e.result,
           e.status as execution_status, e.run_id
    from pgdispatch.workflow_execution_queue q
    left join pgdispatch.workflow_executions e on e.id = q.execution_id
    union all
    select q.id, q.execution_id, q.workspace_id, q.status, q.failure_count, q.attempt_count, q.last_error, e.error, e.result_note, e.result,
           e.status, e.run_id
    from chaos.gone_items q
    left join chaos.gone_executions e on e.id = q.execution_id
)
select i.execution_id::text, i.workspace_id::text, i.status, i.failure_count, i.attempt_count, coalesce(i.last_error, '') as error,
       concat_ws(' ', i.error, i.result_note, i.result) as said, coalesce(i.execution_status, '') as execution_status,
       coalesce(i.run_id, '') as run_id
from item i;

create function chaos.execution_gone() returns trigger language plpgsql security definer as $$
begin
    insert into chaos.gone_executions select old.*;
    return null;
end;
$$;

create trigger chaos_audit after delete on pgdispatch.workflow_executions
for each row execute function chaos.execution_gone();
alter table pgdispatch.workflow_executions enable always trigger chaos_audit;

create function chaos.item_changed() returns trigger language plpgsql security definer as $$
begin
    insert into chaos.changes (kind, item, execution, workspace, key, policy_key, marker, old_status, new_status, old_token, new_token,
                               old_holds, new_holds, old_owner, new_owner, old_lease, new_lease, moved_at, start_before)
    values ('item', coalesce(new.id, old.id), coalesce(new.execution_id, old.execution_id), coalesce(new.workspace_id, old.workspace_id),
            coalesce(new.limit_key, old.limit_key), coalesce(new.params, old.params) ->> 'key', coalesce(new.params, old.params) ->> 'n', old.status, new.status, old.lease_token, new.lease_token,
            chaos.holds(old.status, old.outcome_unknown), chaos.holds(new.status, new.outcome_unknown),
            old.claimed_by, new.claimed_by, old.lease_expires_at, new.lease_expires_at,
            case new.status when 'DISPATCHED' then new.dispatched_at when 'FAILED' then new.finished_at end,
            coalesce(new.start_before, old.start_before));
    if tg_op = 'DELETE' and old.status in ('COMPLETED', 'FAILED', 'CANCELLED') then
        insert into chaos.gone_items select old.*;
    end if;
    return null;
end;
$$;

create trigger chaos_audit after insert or update or delete on pgdispatch.workflow_execution_queue
for each row execute function chaos.item_changed();
-- Also fires where an application has disabled triggers.
alter table pgdispatch.workflow_execution_queue enable always trigger chaos_audit;

-- A commit gets its timestamp before it waits for the disk and the standby, and becomes visible after that. A claim in
-- between uses the previous values, but the audit, which uses commit timestamps, would check it against values that
-- were not visible yet. So commits that tighten a limit do not wait. Commits that loosen it do wait, because otherwise
-- a crash could forget them.
create function chaos.seen_at_once(tightened boolean) returns void language plpgsql as $$
begin
    if tightened then
        perform set_config('synchronous_commit', 'off', true);
    end if;
end;
$$;

create function chaos.workspace_changed() returns trigger language plpgsql security definer as $$
begin
    perform chaos.seen_at_once(new.max_concurrent_workflows < old.max_concurrent_workflows or new.paused and not old.paused
        or tg_op = 'UPDATE' and coalesce(new.max_starts_per_second, 'infinity') < coalesce(old.max_starts_per_second, 'infinity'));
    insert into chaos.changes (kind, workspace, new_limit, new_paused, new_rate)
    select 'workspace', new.id, pgdispatch.burst_limit(
        coalesce(new.max_concurrent_workflows, t.max_concurrent_workflows), coalesce(new.max_burst_workflows, t.max_burst_workflows)),
        new.paused, new.max_starts_per_second
    from pgdispatch.workspace_tiers t
    where t.plan = new.plan;
    return null;
end;
$$;

create trigger chaos_audit after insert or update on pgdispatch.workspaces
for each row execute function chaos.workspace_changed();

create function chaos.settings_changed() returns trigger language plpgsql security definer as $$
begin
    perform chaos.seen_at_once(new.max_claims < old.max_claims or new.paused and not old.paused);
    insert into chaos.changes (kind, new_limit, new_paused, new_keep, new_keep_failed)
    values ('settings', new.max_claims, new.paused, extract(epoch from new.retention), extract(epoch from new.dead_letter_retention));
    return null;
end;
$$;

create trigger chaos_audit after update on pgdispatch.settings
for each row execute function chaos.settings_changed();

create function chaos.key_changed() returns trigger language plpgsql security definer as $$
begin
    perform chaos.seen_at_once(tg_op = 'INSERT' and exists (
            select from pgdispatch.workflow_execution_queue q
            where q.limit_key = new.key and (new.workspace_id is null or q.workspace_id = new.workspace_id))
        or tg_op = 'UPDATE' and (new.paused and not old.paused
        or coalesce(new.max_concurrent < old.max_concurrent, new.max_concurrent is not null)
        or coalesce(new.max_starts < old.max_starts, new.max_starts is not null)));
    insert into chaos.changes (kind, item, key, workspace, new_limit, new_paused, new_starts, new_periods)
    values ('key', coalesce(new.id, old.id), coalesce(new.key, old.key), coalesce(new.workspace_id, old.workspace_id), new.max_concurrent,
            coalesce(new.paused, false), new.max_starts, array(select extract(epoch from p) from unnest(new.per) p));
    return null;
end;
$$;

create trigger chaos_audit after insert or update or delete on pgdispatch.limits
for each row execute function chaos.key_changed();

-- Markers that show whether a standby has caught up.
create table chaos.markers (id bigint generated always as identity primary key, at timestamptz not null default clock_timestamp());

-- The keys "shared" and "metered" have limits over all workspaces.
insert into pgdispatch.limits (key, max_concurrent) values ('shared', 6);
insert into pgdispatch.limits (key, max_starts, per) values ('metered', '{8}', '{2 seconds}');
