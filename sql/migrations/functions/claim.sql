-- PENDING -> CLAIMED. Gives up to at_most due items to an owner and returns all that starting them needs.
--
-- One transaction at a time decides who is claimed, so that no limit is passed. Its cost is what it claims and what has
-- changed since the last claim, not what is waiting, nor the versions of rows that an old snapshot keeps.
-- Whose turn it is: the highest priority that is due; among equals the workspace that was served least recently; in it, age.
-- One of every ten items, though, is the one that has been due for longest, if for longer than settings.priority_aging: so
-- whatever is urgent meanwhile, an item starts after at most ten times as many as have waited longer. See docs/enqueue.md.
-- A namespace that takes no workflows for now, or not as many, is in namespaces, with how many of its items may be given in allowed.
-- A definition that names none means own_namespace. Whoever limits no namespace pays nothing for it: see functions/claim_around.sql.
-- Its last row has no id: it says whether more is due than was given, whether W, or an item that is handed over alone, left room
-- for less than was asked for, and how soon to look again for what is due later (null: nothing is).
create function pgdispatch.claim(owner text, at_most integer, lease interval,
                                 own_namespace text default null, namespaces text[] default '{}', allowed integer[] default '{}')
returns table (
    id bigint, lease_token bigint, execution_id uuid, workspace_id uuid,
    workflow_definition_id uuid, workflow_definition_version_id uuid,
    namespace text, workflow_type text, task_queue text, execution_timeout interval, node_ids text, params text, traceparent text,
    attempt_count integer, failure_count integer, max_attempts integer, outcome_unknown boolean,
    unanswered_for interval, problem text, waited interval, more boolean, capped boolean, look_again_in interval,
    paused boolean, at_capacity text
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- Every access below has its index; statistics that are stale must not talk the planner out of it. Items are named by lists and
-- not by joins for the same reason: a join could begin at the queue.
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
    book_at tid;
    seen pg_snapshot;
    sees pg_snapshot;
    caught_up boolean := false;
    due_from timestamptz;
    all_levels integer[];
    served_floors bigint[];
    aged_floor timestamptz;
    aged_before timestamptz;
    turn bigint;
    last_token bigint;
    aged_share bigint := 0;
    aged boolean;
    oldest timestamptz;
    level integer;
    halted boolean;
    restored boolean;
    room integer;
    expired integer;
    unanswered boolean;
    alone boolean;
    token_floor bigint;
    least_token bigint;
    complete boolean;
    book_it boolean := false;
    touched pgdispatch.lane_now[];
    picked pgdispatch.lane_now[];
    claimed bigint[] := '{}';
    given_to uuid[];
    barren uuid[] := '{}';
    was_claimed integer;
    candidates bigint;
    around constant boolean := cardinality(namespaces) > 0;
    remaining integer[]; -- of allowed
    closed text[] := '{}'; -- those of which none remains
    look_until timestamptz;
    rounds integer := 0;
    gave_up boolean := false;
    by_age boolean;
    again boolean;
    ready boolean; -- something is, that has not arrived just now
    lane_due timestamptz; -- when a lane is next due to be looked at
    unanswered_due timestamptz; -- when a start that was not answered is next due to be repeated
    arrived boolean := false;
    gave_nothing uuid[];
    full_now json[];
    full_lanes json[];
begin
    -- A snapshot from before the lock would count what others no longer are.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'claim needs READ COMMITTED, this transaction is %', current_setting('transaction_isolation')
            using errcode = 'PGD30', hint = 'BEGIN ISOLATION LEVEL READ COMMITTED, or call it outside a transaction.';
    end if;
    lock table pgdispatch.claim_lock in share row exclusive mode;
    start_time := clock_timestamp();

    -- W. An expired lease is not counted; it is put back at once, without waiting for a sweeper. What cannot be put back
    -- is counted: its row is locked, perhaps by a heartbeat that was in time and is about to commit.
    token_floor := coalesce(pg_sequence_last_value('pgdispatch.least_lease_token'), 0);
    last_token := coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0);
    select b.at, b.seen, least(b.due_from, start_time), b.levels, b.served_from, b.aged_from, least(b.aged_turn, last_token),
           pg_snapshot_xmax(b.seen) > pg_snapshot_xmax(pg_current_snapshot()),
           start_time - s.priority_aging, s.paused, least(at_most, s.max_claims - n.leased), n.expired, coalesce(n.least_token, last_token), n.alone,
           exists (select from pgdispatch.ready_lanes(b.levels, b.served_from)), d.lane_due, d.unanswered_due,
           coalesce(d.unanswered_due <= start_time, false)
    into book_at, seen, due_from, all_levels, served_floors, aged_floor, turn,
         restored, aged_before, halted, room, expired, least_token, alone, ready, lane_due, unanswered_due, unanswered
    from (select b.ctid as at, b.* from pgdispatch.lane_book b order by b.version desc limit 1) b
    cross join pgdispatch.settings s
    cross join (
        select count(*) as leased, min(q.lease_token) as least_token, count(*) filter (where q.lease_expires_at <= start_time) as expired,
               coalesce(bool_or(q.lost_lease_count >= 2 and q.claimed_by = owner and q.lease_expires_at > start_time), false) as alone
        from pgdispatch.workflow_execution_queue q
        where q.status = 'CLAIMED' and q.lease_token >= token_floor
    ) n
    cross join lateral (
        select (select l.next_due_at from pgdispatch.lanes l
                where l.active < l.slots and not l.paused and l.next_due_at >= least(b.due_from, start_time)
                order by l.next_due_at limit 1) as lane_due,
               (select q.run_at from pgdispatch.workflow_execution_queue q
                where q.status = 'PENDING' and q.outcome_unknown
                order by q.run_at limit 1) as unanswered_due
        offset 0
    ) d;
    if expired > 0 then
        perform pgdispatch.requeue_expired(1000);
        select least(at_most, s.max_claims - n.leased), true into room, unanswered
        from pgdispatch.settings s
        cross join (select count(*) as leased from pgdispatch.workflow_execution_queue q
                    where q.status = 'CLAIMED' and q.lease_token >= token_floor) n;
    elsif least_token > token_floor + 100 and pg_current_xact_id_if_assigned() is null then
        -- Not where this transaction has settled something: that may be rolled back, and this is not.
        perform setval('pgdispatch.least_lease_token', least_token);
    end if;
    room := case when halted or alone then 0 else room end; -- alone: this owner holds a suspect, see claim_unanswered
    seen := case when not restored then seen end; -- restored into another cluster, which counts its transactions anew

    look_until := start_time;
    if around then
        select a.remaining, a.closed into remaining, closed from pgdispatch.allowance_left('{}', own_namespace, namespaces, allowed) a;
        if cardinality(closed) < cardinality(namespaces) then
            -- What may be given of a namespace again may be in lanes that were passed over for it.
            select greatest(start_time, max(l.next_due_at)) into look_until
            from (select l.next_due_at from pgdispatch.lanes l
                  where l.active < l.slots and not l.paused and l.next_due_at >= due_from and l.next_due_at <= start_time + interval '3 seconds'
                  order by l.next_due_at limit 100) l;
        end if;
    end if;

    if not (ready or (lane_due <= start_time) is true or unanswered or around) and room > 0 and seen is not null then
        claimed := pgdispatch.claim_arrived(owner, room, lease, start_time, seen, book_at, all_levels, last_token, turn, aged_before);
        arrived := claimed is not null;
        claimed := coalesce(claimed, '{}');
    end if;

    -- What has changed since the last claim: new items, hints, lanes with something due. Nothing is written yet, so that a lane
    -- is written once.
    loop
        exit when arrived;
        with arrival as (
            select c.workspace_id, c.freed, c.priority, c.run_at from pgdispatch.changed_since(seen) c
        ), change as (
            select * from arrival where not caught_up
            union all
            (select l.workspace_id, 0, null, null
             from pgdispatch.lanes l
             where l.active < l.slots and not l.paused and l.next_due_at >= due_from and l.next_due_at <= look_until
             order by l.next_due_at limit 1000)
        )
        select pg_current_snapshot(),
               seen is not null and (select count(*) < 1000 from arrival)
                   and coalesce(bool_and(l.at is not null and (n.priorities is null or n.priorities <@ all_levels)), true),
               array_agg(row(l.at, n.workspace_id, greatest(l.active - n.freed, 0),
                   coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1), coalesce(w.paused, false),
                   w.max_starts_per_second,
                   -- What has been saved up, at the rate that held until now.
                   case when w.max_starts_per_second is null then 1e9
                        else least(greatest(w.max_starts_per_second, 1),
                            pgdispatch.tokens_now(l.starts_per_second, l.tokens, l.tokens_at, start_time)) end,
                   h.due_priority, coalesce(h.oldest_due, start_time), l.last_served,
                   l.at_capacity and l.active - n.freed >= coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1),
                   h.next_due_at)::pgdispatch.lane_now),
               min(h.oldest_due)
        into sees, complete, touched, oldest
        -- A workspace that is gone keeps one slot, through which its items are failed one after another.
        from (
            select c.workspace_id, sum(c.freed) as freed, min(c.run_at) as run_at,
                   array_agg(c.priority) filter (where c.priority is not null) as priorities
            from change c group by c.workspace_id
        ) n
        left join lateral (
            select l.ctid as at, l.* from pgdispatch.lanes l where l.workspace_id = n.workspace_id order by l.version desc limit 1
        ) l on true
        left join pgdispatch.workspaces w on w.id = n.workspace_id
        left join pgdispatch.workspace_tiers t on t.plan = w.plan
        cross join lateral pgdispatch.lane_head(n.workspace_id, start_time, least(l.waiting_from, n.run_at), all_levels, own_namespace, closed) h;
        sees := case when caught_up then seen else sees end;
        exit when caught_up or complete;
        select c.sees, c.levels, c.served_from into seen, all_levels, served_floors
        from pgdispatch.catch_up(seen, start_time, all_levels, served_floors) c;
        caught_up := true;
        book_it := true;
    end loop;
    book_it := book_it or touched is not null;
    if last_token >= turn + 10 and room > 0 and not arrived then
        -- One item to every ten that were claimed is of those that have waited too long. What is owed to nobody is forgotten.
        aged := exists (
            select from pgdispatch.lanes l
            where l.active < l.slots and not l.paused and l.ready_priority is not null
              and l.waiting_from >= aged_floor and l.waiting_from < aged_before);
        aged_floor := case when aged then aged_floor else aged_before end;
        aged_share := case when aged or oldest < aged_before then (last_token - turn) / 10 else 0 end;
        turn := case when aged_share > 0 then turn else last_token end;
        book_it := true;
    end if;

    if unanswered and room > 0 then
        select u.claimed, u.alone into claimed, alone
        from pgdispatch.claim_unanswered(owner, room, lease, start_time, token_floor,
            case when around then pgdispatch.unanswered_allowed(start_time, own_namespace, namespaces, allowed) end) u;
        room := case when alone then cardinality(claimed) else room end;
    end if;

    -- Then the share of those that have waited too long, and then the lanes with room, level by level.
    again := not arrived;
    while again or book_it loop
        picked := null; given_to := null; by_age := false; was_claimed := cardinality(claimed);
        if aged_share > 0 and cardinality(claimed) < room then
            aged_share := least(aged_share, room - cardinality(claimed));
            select claimed || g.given, g.given_to, g.picked, g.oldest,
                   case when cardinality(g.given) = aged_share then turn + 10 * aged_share else last_token end
            into claimed, given_to, picked, aged_floor, turn
            from pgdispatch.claim_aged(owner, aged_share, lease, start_time, aged_before, aged_floor, all_levels, touched,
                own_namespace, namespaces) g;
            aged_share := 0;
            by_age := picked is not null;
        end if;
        if around and not by_age and cardinality(claimed) < room then
            select a.remaining into remaining from pgdispatch.allowance_left(claimed, own_namespace, namespaces, allowed) a;
            select claimed || g.given, g.given_to, g.picked, g.candidates
            into claimed, given_to, picked, candidates
            from pgdispatch.claim_around(owner, room - cardinality(claimed), lease, start_time, all_levels, served_floors, touched, barren,
                own_namespace, namespaces, remaining) g;
            rounds := rounds + 1;
        elsif not by_age and cardinality(claimed) < room then
            with candidate as (
                {{ template "parts/candidates.sql" "room" }}
            ), top as materialized (
                select c.*, least(count(*) over (), room - cardinality(claimed)) as lanes,
                       row_number() over (order by c.last_served, c.workspace_id) as place
                from candidate c
                where c.ready_priority = (select max(m.ready_priority) from candidate m)
                order by c.last_served, c.workspace_id
                limit room - cardinality(claimed)
            ), heads as materialized (
                select head.at, p.place
                from top p
                cross join lateral (
                    select q.ctid as at
                    from pgdispatch.workflow_execution_queue q
                    where q.workspace_id = p.workspace_id and q.priority = p.ready_priority
                      and q.status = 'PENDING' and not q.outcome_unknown
                      and q.run_at >= p.waiting_from and q.run_at <= start_time
                    order by q.run_at, q.id
                    -- Rounded up: whoever comes last in this turn may get less, and is first in the next. A turn is four items
                    -- where there are more lanes than that leaves one for: a lane costs about as much as an item does.
                    limit least(p.slots - p.active, floor(p.tokens), greatest(4, (room - cardinality(claimed) + p.lanes - 1) / p.lanes))
                    for update skip locked
                ) head
                limit room - cardinality(claimed)
            ), taken as (
                {{ template "parts/take.sql" }}
                where q.ctid = any (array(select h.at from heads h)) -- they are locked, so that is where they stay
                returning q.id, q.workspace_id
            )
            select claimed || array_agg(t.id), array_agg(t.workspace_id), (select count(*) from candidate),
                   (select array_agg({{ template "parts/lane_now.sql" "p" }} order by p.place)
                    from top p
                    -- Not those whose turn did not come.
                    where (select count(*) from heads) < room - cardinality(claimed) or p.place <= (select max(h.place) from heads h))
            into claimed, given_to, candidates, picked
            from taken t;
            if last_token % 7 = 0 and cardinality(barren) = 0 and picked is not null then
                -- Now and then, and where nothing was passed over: all that are ready at this level were served no earlier.
                level := array_position(all_levels, picked[1].ready_priority);
                if picked[1].last_served > served_floors[level] + 100 then
                    served_floors[level] := picked[1].last_served;
                    book_it := true;
                end if;
            end if;
        end if;
        exit when picked is null and not book_it;
        if around then
            select a.closed into closed from pgdispatch.allowance_left(claimed, own_namespace, namespaces, allowed) a;
        end if;

        -- What the lanes are now. The version is also the turn, taken in the order of service.
        with counted as (
            select o.workspace_id, count(*)::integer as items from unnest(given_to) as o (workspace_id) group by o.workspace_id
        ), work as (
            select p.*, true as was_picked from unnest(picked) p
            union all
            select t.*, false from unnest(touched) t
            where t.workspace_id <> all (array(select p.workspace_id from unnest(picked) p))
        ), after as (
            select k.*, k.due_priority is not null and k.tokens_left < 1 as exhausted, nextval('pgdispatch.lane_versions') as version
            from (
                select n.*, coalesce(c.items, 0) as items, n.tokens - coalesce(c.items, 0) as tokens_left,
                       h.due_priority, h.due_next_at, h.waits_from
                from work n
                left join counted c on c.workspace_id = n.workspace_id
                cross join lateral (
                    select f.due_priority, f.next_due_at as due_next_at, coalesce(f.oldest_due, start_time) as waits_from
                    from pgdispatch.lane_head(n.workspace_id, start_time, n.waiting_from, all_levels, own_namespace, closed) f
                    where n.was_picked or around
                    union all
                    -- Nothing of it was taken since it was looked at.
                    select n.ready_priority, n.next_due_at, n.waiting_from where not (n.was_picked or around)
                ) h
            ) k
        ), written as (
            update pgdispatch.lanes l
            set version = a.version,
                active = a.active + a.items,
                slots = a.slots,
                paused = a.paused,
                starts_per_second = a.starts_per_second,
                tokens = a.tokens_left,
                tokens_at = start_time,
                ready_priority = case when not a.exhausted then a.due_priority end,
                next_due_at = case when a.exhausted
                    then least(a.due_next_at, start_time + (1 - a.tokens_left) / a.starts_per_second * interval '1 second' + interval '1 microsecond')
                    else a.due_next_at end,
                waiting_from = a.waits_from,
                last_served = case when a.items > 0 then a.version
                    else greatest(a.last_served, served_floors[array_position(all_levels, a.due_priority)]) end,
                at_capacity = a.due_priority is not null and a.active + a.items >= a.slots and not a.paused
            from after a
            where l.ctid = a.at
            returning l.workspace_id, l.active, l.slots, l.waiting_from, l.at_capacity and not a.at_capacity as full_now,
                      l.active < l.slots and not l.paused and l.ready_priority is not null as ready,
                      a.was_picked and a.items = 0 and l.ready_priority = a.ready_priority and cardinality(claimed) < room as gave_nothing
        ), booked as (
            update pgdispatch.lane_book b
            set version = nextval('pgdispatch.lane_versions'), seen = sees, levels = all_levels, served_from = served_floors,
                aged_turn = turn,
                aged_from = least(aged_floor, (select min(w.waiting_from) from written w where w.ready)),
                due_from = case when (select count(*) < 1000 from unnest(touched)) then start_time else b.due_from end
            where b.ctid = book_at and book_it
        )
        select coalesce(bool_or(w.ready and not w.gave_nothing), false), array_agg(w.workspace_id) filter (where w.gave_nothing),
               array_agg(json_build_object('workspace_id', w.workspace_id, 'active', w.active, 'limit', w.slots)) filter (where w.full_now)
        into again, gave_nothing, full_now
        from written w;
        if gave_nothing is not null and not by_age then
            barren := barren || gave_nothing;
        end if;
        if full_now is not null then
            full_lanes := full_lanes || full_now;
        end if;
        -- Of the lanes that were not picked, some may be ready too.
        again := cardinality(claimed) < room
                 and (again or by_age or candidates > cardinality(picked) or cardinality(picked) >= room - was_claimed);
        gave_up := again and rounds >= 10; -- in passing over lanes: the others want the lock, too
        again := again and not gave_up;
        touched := null; book_it := false;
    end loop;

    -- The execution is there before its start is sent. A start that may have arrived is repeated as it was.
    return query
    with item as materialized (
        select q.id, q.lease_token, q.execution_id, q.workspace_id, q.workflow_definition_id, v.id as version_id,
               -- Where a start may have arrived, it is repeated; where none did, the definition may have been corrected.
               coalesce(e.namespace, d.namespace, own_namespace) as namespace,
               d.workflow_type, d.task_queue, d.execution_timeout, v.node_ids, q.params, q.traceparent,
               q.attempt_count, q.failure_count, d.max_attempts, q.outcome_unknown, q.run_at, q.created_at,
               case when not q.outcome_unknown then start_time else coalesce(e.first_sent_at, q.created_at) end as first_sent_at,
               case
                   when d.id is null and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id) then 'workspace not found'
                   when d.id is null then 'workflow definition not found'
                   when v.id is null then 'workflow definition has no version'
                   when q.lost_lease_count >= 3 then 'holder lost three times, the last time with this item alone'
               end as problem
        from pgdispatch.workflow_execution_queue q
        left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
        -- Of a start that may have arrived, and only of that.
        left join lateral (
            select e.namespace, e.first_sent_at, e.workflow_definition_version_id as version_id
            from pgdispatch.workflow_executions e
            where q.outcome_unknown and e.id = q.execution_id
            offset 0
        ) e on true
        left join lateral (
            select v.id, v.node_ids
            from pgdispatch.workflow_definition_versions v
            where v.workflow_definition_id = q.workflow_definition_id
              and (not q.outcome_unknown or v.id = coalesce(e.version_id, v.id))
            order by v.version desc
            limit 1
        ) v on true
        where q.id = any (claimed)
    ), execution as (
        insert into pgdispatch.workflow_executions as e
            (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, namespace, watcher, first_sent_at)
        select i.execution_id, i.id, i.workspace_id, i.workflow_definition_id, i.version_id, i.namespace, owner, i.first_sent_at
        from item i
        where i.version_id is not null
        on conflict (id) do update
        set workflow_definition_version_id = excluded.workflow_definition_version_id, namespace = excluded.namespace, watcher = excluded.watcher,
            first_sent_at = excluded.first_sent_at
    )
    select i.id, i.lease_token, i.execution_id, i.workspace_id, i.workflow_definition_id, i.version_id,
           i.namespace, i.workflow_type, i.task_queue, i.execution_timeout, i.node_ids::text, i.params::text, i.traceparent,
           i.attempt_count, i.failure_count, i.max_attempts, i.outcome_unknown, start_time - i.first_sent_at, i.problem,
           clock_timestamp() - greatest(i.created_at, i.run_at), null::boolean, null::boolean, null::interval,
           null::boolean, null::text
    from item i;

    -- A paused dispatcher has nothing to look for; the change of the setting will wake it.
    id := null; lease_token := null; execution_id := null; workspace_id := null;
    capped := room < at_most;
    paused := halted;
    -- For the log: who is full and has more waiting, each said once until it has room again.
    at_capacity := array_to_json(full_lanes);
    if arrived then
        more := false; -- what there was has been given
        look_again_in := least(lane_due, unanswered_due) - clock_timestamp();
        return next;
        return;
    end if;
    select gave_up or not halted and cardinality(claimed) >= room and (unanswered or exists (select from pgdispatch.ready_lanes(all_levels, served_floors, barren))),
           case when not halted then least(
               (select min(l.next_due_at) from pgdispatch.lanes l
                where l.active < l.slots and not l.paused and l.next_due_at >= due_from),
               (select min(q.run_at) from pgdispatch.workflow_execution_queue q
                where q.status = 'PENDING' and q.outcome_unknown and q.run_at > start_time)
           ) - clock_timestamp() end
    into more, look_again_in;
    return next;
end;
$$;
