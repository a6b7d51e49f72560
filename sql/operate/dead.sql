-- Dead letters: found, replayed and discarded.

-- name: dead_find
-- reads
-- $1 state: open, replayed, discarded or any; $2 workspace and $3 definition: ID or name; $4 part of the error,
-- case-insensitive; failed since $5 or, if that is null, since $6 ago; until $7 or $8, likewise; $9 at most (null:
-- all); after the row that failed at $10 with ID $11; $12 only of these workspaces; none before the one that failed at $13
-- with ID $14. Null filters nothing. Newest first.
select f.id
from pgdispatch.failed_items f
where case $1::text when 'open' then f.open when 'any' then true else not f.open and f.mark = upper($1::text) end
  and ($2::text is null or f.workspace_id::text = lower($2::text)
       or f.workspace_id = any (array(select w.id from pgdispatch.workspaces w where w.name collate "C" = $2::text)))
  and ($3::text is null or f.workflow_definition_id::text = lower($3::text)
       or (select d.name from pgdispatch.workflow_definitions d where d.id = f.workflow_definition_id) = $3::text)
  and ($4::text is null or position(lower($4::text) in lower(f.last_error)) > 0)
  and f.finished_at >= coalesce($5::timestamptz, clock_timestamp() - $6::interval, '-infinity')
  and f.finished_at >= coalesce($13::timestamptz, '-infinity')
  and ($13::timestamptz is null or (f.finished_at, f.id) >= ($13::timestamptz, $14::bigint))
  and f.finished_at <= coalesce($7::timestamptz, clock_timestamp() - $8::interval, $10::timestamptz, 'infinity')
  and ($10::timestamptz is null or (f.finished_at, f.id) < ($10::timestamptz, $11::bigint))
  and ($12::text[] is null or f.workspace_id = any ($12::text[]::uuid[]))
order by f.finished_at desc, f.id desc
limit $9::bigint

-- name: dead_history
-- reads
-- $1 item, $2 workspaces (null: all). Its counted failures, earliest first.
select h.failure, h.attempt, h.failed_at, h.error, coalesce(h.replica, '') as replica
from pgdispatch.workflow_execution_queue q
join pgdispatch.item_failures h on h.item_id = q.id
where q.id = $1::bigint and ($2::text[] is null or q.workspace_id = any ($2::text[]::uuid[]))
order by h.failure

-- name: dead_horizon
-- reads
-- $1 how many failures, from the one on that failed before $2 with ID $3 (null: from the newest). The last of them; no
-- row if there are fewer. With $4, some workspaces, the beginning of the minute in which it failed: it may be of another.
select case when $4::text[] is null then q.finished_at else date_trunc('minute', q.finished_at) end as failed_at,
       case when $4::text[] is null then q.id else 0 end as id
from pgdispatch.workflow_execution_queue q
where q.stage = 'DEAD' and q.finished_at <= coalesce($2::timestamptz, 'infinity')
  and ($2::timestamptz is null or (q.finished_at, q.id) < ($2::timestamptz, $3::bigint))
order by q.finished_at desc, q.id desc
offset $1::bigint - 1 limit 1

-- name: dead_replay
-- writes new items, dead letters and the audit log
-- $1 execution, $2 who, $3 workspaces (null: all). Inserts a new PENDING item, or finds the one that was inserted
-- before. Returns nothing if the execution is of another workspace.
with letter as materialized (
    select $1::uuid as execution
    where $3::text[] is null or exists (
        select from pgdispatch.workflow_execution_queue q
        where q.execution_id = $1::uuid and q.workspace_id = any ($3::text[]::uuid[]))
), stands as materialized (
    select r.id, r.execution_id, r.replayed from letter l cross join lateral pgdispatch.replay(l.execution, $2::text) r
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'dead replay', 'items', jsonb_build_object('execution', $1::uuid, 'replays', jsonb_build_array(s.id))
    from stands s
    where s.replayed
)
select s.id, coalesce(s.execution_id::text, '') as execution_id, s.replayed from stands s

-- name: dead_replay_all
-- writes new items, dead letters and the audit log
-- $1 items, $2 who, $3 workspaces (null: all). Inserts a new item for each open one of these dead letters.
with letters as materialized (
    select array_agg(q.id) as ids from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
), replayed as materialized (
    select r.item_id, r.replay_id, r.replay_execution_id from letters l cross join lateral pgdispatch.replay_items(l.ids, $2::text) r
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'dead replay', 'items', jsonb_build_object('items', jsonb_agg(r.item_id order by r.item_id),
                                                               'replays', jsonb_agg(r.replay_id order by r.item_id))
    from replayed r
    having count(*) > 0
)
select r.item_id as id, r.replay_id, r.replay_execution_id::text from replayed r

-- name: dead_discard
-- writes dead letters and the audit log
-- $1 items, $2 who, $3 workspaces (null: all). Discards the open ones of these dead letters and returns them.
with letters as materialized (
    select array_agg(q.id) as ids from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and ($3::text[] is null or q.workspace_id = any ($3::text[]::uuid[]))
), discarded as materialized (
    select d.id from letters l cross join lateral pgdispatch.discard_items(l.ids, $2::text) as d (id)
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'dead discard', 'items', jsonb_build_object('items', jsonb_agg(d.id order by d.id))
    from discarded d
    having count(*) > 0
)
select d.id from discarded d

-- name: view_dead_groups
-- reads
-- $1 how many of the newest failures are searched, $2 groups at most, $3 workspaces (null: any). Open dead letters by
-- kind of error, largest first.
with failures as materialized (
    select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc limit $1::bigint
)
select pgdispatch.error_kind(f.last_error) as kind, count(*) as items, count(distinct f.workspace_id) as workspaces,
       min(f.finished_at) as first_at, max(f.finished_at) as last_at, max(f.id) as newest,
       (array_agg(f.last_error order by f.id desc))[1] as example
from failures n cross join lateral (select f.* from pgdispatch.failed_items f where f.id = n.id offset 0) f -- per row
where f.open and ($3::text[] is null or f.workspace_id = any ($3::text[]::uuid[]))
group by pgdispatch.error_kind(f.last_error)
order by count(*) desc, max(f.id) desc
limit $2::bigint

-- name: view_dead_group
-- reads
-- $1 how many of the newest failures are searched, $2 kind of error, $3 at most; after the one that failed at $4 with
-- ID $5 (null: from the first); $6 workspaces (null: any). Its open dead letters, newest first.
with failures as materialized (
    select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc limit $1::bigint
)
select f.id
from failures n cross join lateral (select f.* from pgdispatch.failed_items f where f.id = n.id offset 0) f -- per row
where f.open and pgdispatch.error_kind(f.last_error) = $2::text
  and ($4::timestamptz is null or (f.finished_at, f.id) < ($4::timestamptz, $5::bigint))
  and ($6::text[] is null or f.workspace_id = any ($6::text[]::uuid[]))
order by f.finished_at desc, f.id desc
limit $3::bigint

-- function: replay
-- Replays a dead letter as a new item with a new workflow ID, and returns the item that stands for it now. replayed is
-- false if an earlier replay waits, runs, or has completed: nothing is done, and that replay is returned. If the replay
-- failed too, the newest one is replayed.
create or replace function pgdispatch.replay(execution uuid, who text default session_user,
                                  out id bigint, out execution_id uuid, out replayed boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    letter pgdispatch.workflow_execution_queue;
    later bigint;
begin
    select * into letter from pgdispatch.workflow_execution_queue q where q.execution_id = execution;
    if not found then
        raise exception 'no item has execution %', coalesce(execution::text, 'null')
            using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.dead_letters.';
    elsif letter.status <> 'FAILED' and (letter.replay_of is null or letter.status = 'CANCELLED') then
        raise exception 'item % is %: only FAILED items can be replayed or discarded', letter.id, letter.status
            using errcode = 'PGD24', hint = 'Insert a new item to run it again.';
    end if;

    -- Follows the chain of replays. A withdrawn replay does not count.
    loop
        select m.replay_id into later
        from pgdispatch.dead_letter_marks m
        left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where m.item_id = letter.id and m.mark = 'REPLAYED' and r.status is distinct from 'CANCELLED';
        exit when not found;
        id := later;
        select * into letter from pgdispatch.workflow_execution_queue q where q.id = later;
        exit when not found; -- it ended and was deleted since
    end loop;
    replayed := false;
    if letter.id is null then
        return;
    end if;
    id := letter.id;
    execution_id := letter.execution_id;
    if letter.status <> 'FAILED' then
        return;
    end if;
    if not exists (select from pgdispatch.workflow_definitions d
                   where d.id = letter.workflow_definition_id and d.workspace_id = letter.workspace_id) then
        raise exception 'workflow definition % of item % was deleted', letter.workflow_definition_id, letter.id
            using errcode = 'PGD02', hint = 'Insert it again with this id, or discard the item.';
    end if;

    select n.replay_id, n.replay_execution_id, true into id, execution_id, replayed
    from pgdispatch.replay_items(array[letter.id], who, even_discarded => true) n;
    if not found then -- a concurrent call has replayed it
        select m.replay_id, r.execution_id, false into id, execution_id, replayed
        from pgdispatch.dead_letter_marks m
        join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where m.item_id = letter.id;
    end if;
end;
$$;

-- function: replay_items
-- Inserts a new item for each of these dead letters that is still open, and marks it as replayed. Skips those that are
-- not open, are gone, or have lost their definition. If even_discarded, discarded ones are replayed too.
create or replace function pgdispatch.replay_items(items bigint[], who text, even_discarded boolean default false)
returns table (item_id bigint, replay_id bigint, replay_execution_id uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    old_ids bigint[];
    new_ids bigint[];
begin
    perform pgdispatch.see_to(items, who);

    with letters as materialized (
        select q.id, gen_random_uuid() as execution_id, q.workspace_id, q.workflow_definition_id, q.params, q.priority, q.traceparent,
               q.start_options, q.limit_key, q.workflow_id
        from pgdispatch.workflow_execution_queue q
        join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id and d.workspace_id = q.workspace_id
        left join pgdispatch.dead_letter_marks m on m.item_id = q.id
        left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where q.id = any (items) and q.status = 'FAILED'
          and (m.item_id is null or r.status = 'CANCELLED' or (even_discarded and m.mark = 'DISCARDED'))
    ), made as (
        insert into pgdispatch.workflow_execution_queue as n
            (execution_id, workspace_id, workflow_definition_id, params, priority, traceparent, start_options, limit_key,
             workflow_id)
        select l.execution_id, l.workspace_id, l.workflow_definition_id, l.params, l.priority, l.traceparent, l.start_options, l.limit_key,
               l.workflow_id
        from letters l
        order by l.id
        returning n.id, n.execution_id
    ), marked as (
        insert into pgdispatch.dead_letter_marks as k (item_id, mark, marked_by, replay_id)
        select l.id, 'REPLAYED', who, n.id
        from made n
        join letters l on l.execution_id = n.execution_id
        on conflict (item_id) do update
        set mark = excluded.mark, marked_at = excluded.marked_at, marked_by = excluded.marked_by, replay_id = excluded.replay_id
        returning k.item_id, k.replay_id
    )
    select array_agg(m.item_id), array_agg(m.replay_id) into old_ids, new_ids from marked m;

    update pgdispatch.enqueue_keys k
    set item_id = x.replay_id
    from unnest(old_ids, new_ids) as x (item_id, replay_id)
    where k.item_id = x.item_id;

    -- An insert may not set replay_of, or any client could.
    return query
    update pgdispatch.workflow_execution_queue n
    set replay_of = x.item_id
    from unnest(old_ids, new_ids) as x (item_id, replay_id)
    where n.id = x.replay_id
    returning x.item_id, n.id, n.execution_id;
end;
$$;

-- function: discard
-- Marks a dead letter as handled without a replay, and returns true if this call did it. Returns false if it was
-- already discarded or replayed.
create or replace function pgdispatch.discard(execution uuid, who text default session_user) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    letter record;
begin
    select q.id, q.status into letter from pgdispatch.workflow_execution_queue q where q.execution_id = execution;
    if not found then
        raise exception 'no item has execution %', coalesce(execution::text, 'null')
            using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.dead_letters.';
    elsif letter.status <> 'FAILED' then
        raise exception 'item % is %: only FAILED items can be replayed or discarded', letter.id, letter.status
            using errcode = 'PGD24', hint = 'Use pgdispatch.cancel to withdraw a PENDING item.';
    end if;
    return exists (select from pgdispatch.discard_items(array[letter.id], who));
end;
$$;

-- function: discard_items
-- Marks the open ones of these dead letters as discarded, and returns their IDs.
create or replace function pgdispatch.discard_items(items bigint[], who text) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgdispatch.see_to(items, who);

    return query
    insert into pgdispatch.dead_letter_marks as k (item_id, mark, marked_by)
    select q.id, 'DISCARDED', who
    from pgdispatch.workflow_execution_queue q
    left join pgdispatch.dead_letter_marks m on m.item_id = q.id
    left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
    where q.id = any (items) and q.status = 'FAILED' and (m.item_id is null or r.status = 'CANCELLED')
    on conflict (item_id) do update
    set mark = excluded.mark, marked_at = excluded.marked_at, marked_by = excluded.marked_by, replay_id = null
    returning k.item_id;
end;
$$;

-- function: see_to
-- The first step of everything that handles dead letters: locks their rows. The caller reads their marks in its next
-- statement, which sees what the previous holder of the locks did. who must be valid as the author of a mark.
create or replace function pgdispatch.see_to(items bigint[], who text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if who is null or length(who) not between 1 and 200 or who ~ '[[:cntrl:]]' then
        raise exception 'who must have 1 to 200 characters and no control characters'
            using errcode = 'PGD25', hint = 'Omit it to use the database user.';
    end if;
    perform q.id
    from pgdispatch.workflow_execution_queue q
    where q.id = any (items) and q.status = 'FAILED'
    order by q.id
    for update;
end;
$$;
