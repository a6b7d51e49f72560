-- PENDING -> CLAIMED. Gives up to at_most due items to an owner and returns all that starting them needs.
--
-- One transaction at a time decides who is claimed, so that no limit is passed; what it costs depends on what it claims
-- and on what has changed since the last claim, not on what is waiting. Its last row has no id: it says whether more is
-- due than was given, whether W left room for less than was asked for, and how soon to look again for what is due later
-- (null: nothing is).
create function pgdispatch.claim(owner text, at_most integer, lease interval)
returns table (
    id bigint, lease_token bigint, execution_id uuid, workspace_id uuid,
    workflow_definition_id uuid, workflow_definition_version_id uuid,
    workflow_type text, task_queue text, execution_timeout interval, node_ids text, params text, traceparent text,
    attempt_count integer, failure_count integer, max_attempts integer, outcome_unknown boolean,
    problem text, waited interval, more boolean, capped boolean, look_again_in interval,
    paused boolean, at_capacity text
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- Every access below has its index; statistics that are stale must not talk the planner out of it.
set plan_cache_mode = force_generic_plan
-- What is switched off costs 10^10, which would have every statement compiled.
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
    start_time timestamptz;
    halted boolean;
    room integer;
    expired integer;
    touched uuid[];
    claimed bigint[] := '{}';
    top_priority integer;
    round_lanes uuid[];
    round_items bigint[];
    round_owners uuid[];
    barren uuid[] := '{}';
    served uuid[] := '{}';
begin
    -- A snapshot from before the lock would count what others no longer are.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'claim needs READ COMMITTED, this transaction is %', current_setting('transaction_isolation')
            using errcode = 'PGD30', hint = 'BEGIN ISOLATION LEVEL READ COMMITTED, or call it outside a transaction.';
    end if;
    lock table pgdispatch.claim_lock in share row exclusive mode;
    start_time := clock_timestamp();

    -- What changed since the last claim.
    with folded as (
        delete from pgdispatch.lane_hints h
        where h.ctid = any (array(select x.ctid from pgdispatch.lane_hints x limit 1000))
        returning h.workspace_id, h.freed
    ), per_lane as (
        select f.workspace_id, sum(f.freed)::integer as freed from folded f group by f.workspace_id
    ), kept as (
        insert into pgdispatch.lanes as l (workspace_id)
        select p.workspace_id from per_lane p
        where not exists (select from pgdispatch.lanes k where k.workspace_id = p.workspace_id)
    ), lowered as (
        update pgdispatch.lanes l
        set active = greatest(l.active - p.freed, 0), at_capacity = false
        from per_lane p
        where l.workspace_id = p.workspace_id and p.freed > 0
    )
    select array_agg(p.workspace_id) into touched from per_lane p;

    touched := touched || array(
        select l.workspace_id from pgdispatch.lanes l
        where l.open and l.next_due_at <= start_time
        order by l.next_due_at limit 1000);
    if cardinality(touched) > 0 then
        perform pgdispatch.refresh_lanes(touched, start_time);
    end if;

    -- W. An expired lease is not counted; it is put back at once, without waiting for a sweeper. What cannot be put back
    -- is counted: its row is locked, perhaps by a heartbeat that was in time and is about to commit.
    select s.paused, least(at_most, s.max_claims - n.leased), n.expired into halted, room, expired
    from pgdispatch.settings s
    cross join (
        select count(*) as leased, count(*) filter (where q.lease_expires_at <= start_time) as expired
        from pgdispatch.workflow_execution_queue q
        where q.status = 'CLAIMED'
    ) n;
    if expired > 0 then
        perform pgdispatch.requeue_expired(1000);
        select least(at_most, s.max_claims - n.leased) into room
        from pgdispatch.settings s
        cross join (select count(*) as leased from pgdispatch.workflow_execution_queue q where q.status = 'CLAIMED') n;
    end if;
    if halted then
        room := 0;
    end if;

    -- Items that hold their slot already come first: only an answer to their start can free it.
    if room > 0 then
        with unanswered as materialized (
            select q.id
            from pgdispatch.workflow_execution_queue q
            where q.status = 'PENDING' and q.outcome_unknown and q.run_at <= start_time
              and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
            order by q.run_at, q.id
            limit room
            for update of q skip locked
        ), taken as (
            update pgdispatch.workflow_execution_queue q
            set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
                lease_expires_at = clock_timestamp() + lease, lease_token = q.lease_token + 1,
                attempt_count = q.attempt_count + 1
            from unanswered u
            where q.id = u.id
            returning q.id
        )
        select coalesce(array_agg(t.id), '{}') into claimed from taken t;
    end if;

    -- Then the lanes with room: highest priority first, among equals the least recently served, each lane's items by age.
    while cardinality(claimed) < room loop
        select l.ready_priority into top_priority
        from pgdispatch.lanes l
        where l.open and l.ready_priority is not null and l.workspace_id <> all (barren)
        order by l.ready_priority desc
        limit 1;
        exit when not found;

        round_lanes := array(
            select l.workspace_id from pgdispatch.lanes l
            where l.open and l.ready_priority = top_priority and l.workspace_id <> all (barren)
            order by l.last_served, l.workspace_id
            limit room - cardinality(claimed));

        with heads as materialized (
            select head.id, lane.turn
            from unnest(round_lanes) with ordinality as lane (workspace_id, turn)
            join pgdispatch.lanes l on l.workspace_id = lane.workspace_id
            cross join lateral (
                select q.id
                from pgdispatch.workflow_execution_queue q
                where q.workspace_id = lane.workspace_id and q.status = 'PENDING' and not q.outcome_unknown
                  and q.priority = top_priority and q.run_at <= start_time
                order by q.run_at, q.id
                limit least(l.slots - l.active, (room - cardinality(claimed)) / cardinality(round_lanes))
                for update skip locked
            ) head
        ), taken as (
            update pgdispatch.workflow_execution_queue q
            set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
                lease_expires_at = clock_timestamp() + lease, lease_token = q.lease_token + 1,
                attempt_count = q.attempt_count + 1
            from heads h
            where q.id = h.id
            returning q.id, q.workspace_id
        )
        select coalesce(array_agg(t.id), '{}'), coalesce(array_agg(t.workspace_id), '{}')
        into round_items, round_owners
        from taken t;

        claimed := claimed || round_items;
        -- The turn is taken in order, so that the next round goes on where this one ended.
        update pgdispatch.lanes l
        set active = l.active + n.items, last_served = n.turn
        from (
            select o.workspace_id, o.items, nextval('pgdispatch.lane_turn') as turn
            from (
                select lane.workspace_id, count(*)::integer as items
                from unnest(round_owners) as lane (workspace_id)
                group by lane.workspace_id
                order by array_position(round_lanes, lane.workspace_id)
            ) o
        ) n
        where l.workspace_id = n.workspace_id;
        perform pgdispatch.refresh_lanes(round_lanes, start_time);
        served := served || round_lanes;
        -- A lane that gave nothing and is as it was has its head locked by somebody else: passing it over keeps the claim
        -- from waiting. One whose head was withdrawn has another now, and takes part in the next round.
        barren := barren || array(
            select l.workspace_id from pgdispatch.lanes l
            where l.workspace_id = any (round_lanes) and l.workspace_id <> all (round_owners) and l.ready_priority = top_priority);
    end loop;

    -- The execution is there before its start is sent. A start that may have arrived is repeated as it was.
    insert into pgdispatch.workflow_executions as e
        (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id)
    select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, v.id
    from unnest(claimed) as c (id)
    join pgdispatch.workflow_execution_queue q on q.id = c.id
    cross join lateral (
        select v.id from pgdispatch.workflow_definition_versions v
        where v.workflow_definition_id = q.workflow_definition_id
        order by v.version desc limit 1
    ) v
    where not q.outcome_unknown or not exists (select from pgdispatch.workflow_executions x where x.id = q.execution_id)
    on conflict (id) do update set workflow_definition_version_id = excluded.workflow_definition_version_id;

    return query
    select q.id, q.lease_token, q.execution_id, q.workspace_id, q.workflow_definition_id, v.id,
           d.workflow_type, d.task_queue, d.execution_timeout, v.node_ids::text, q.params::text, q.traceparent,
           q.attempt_count, q.failure_count, d.max_attempts, q.outcome_unknown,
           case
               when w.id is null then 'workspace not found'
               when d.id is null then 'workflow definition not found'
               when v.id is null then 'workflow definition has no version'
               when q.lost_lease_count >= 3 then 'holder lost three times'
           end,
           clock_timestamp() - greatest(q.created_at, q.run_at), null::boolean, null::boolean, null::interval,
           null::boolean, null::text
    from unnest(claimed) as c (id)
    join pgdispatch.workflow_execution_queue q on q.id = c.id
    left join pgdispatch.workspaces w on w.id = q.workspace_id
    left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
    left join pgdispatch.workflow_executions e on e.id = q.execution_id
    left join pgdispatch.workflow_definition_versions v on v.id = e.workflow_definition_version_id
    order by q.priority desc, q.run_at, q.id;

    -- A paused dispatcher has nothing to look for; the change of the setting will wake it.
    id := null; lease_token := null; execution_id := null; workspace_id := null;
    more := not halted and (
        exists (select from pgdispatch.lanes l where l.open and l.ready_priority is not null and l.workspace_id <> all (barren))
        or exists (select from pgdispatch.lane_hints));
    capped := room < at_most;
    paused := halted;
    -- For the log: who is full and has more waiting, each said once until it has room again.
    with full_lanes as (
        update pgdispatch.lanes l
        set at_capacity = true
        where l.workspace_id = any (touched || served)
          and l.ready_priority is not null and l.active >= l.slots and not l.paused and not l.at_capacity
        returning l.workspace_id, l.active, l.slots
    )
    select json_agg(json_build_object('workspace_id', f.workspace_id, 'active', f.active, 'limit', f.slots))::text
    into at_capacity
    from full_lanes f;
    look_again_in := case when not halted then (
        select least(
            (select min(l.next_due_at) from pgdispatch.lanes l where l.open and l.next_due_at is not null),
            (select min(q.run_at) from pgdispatch.workflow_execution_queue q where q.status = 'PENDING' and q.outcome_unknown and q.run_at > start_time)
        ) - clock_timestamp()) end;
    return next;
end;
$$;
