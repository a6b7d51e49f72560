-- PENDING -> CLAIMED. Gives up to at_most due items to an owner and returns all that starting them needs.
--
-- One transaction at a time decides who is claimed, so that no limit is passed. Its cost is what it claims and what has
-- changed since the last claim, not what is waiting, nor the versions of rows that an old snapshot keeps.
-- Whose turn it is: the highest priority that is due; among equals the workspace that was served least recently; in it, age.
-- One of every ten items, though, is the one that has been due for longest, if for longer than settings.priority_aging: so
-- whatever is urgent meanwhile, an item starts after at most ten times as many as have waited longer. See docs/enqueue.md.
-- A namespace that takes no workflows for now, or not as many, is in namespaces, with how many of its items may be given in allowed.
-- A definition that names none means own_namespace. Whoever limits no namespace pays nothing for it: see functions/claim_around.sql.
-- watcher is who is going to wait for the ends of what is given (null: nobody has room). The settle decides it; where it says the same,
-- it moves no entry of an index.
-- Its last row has no id: it says whether more is due than was given, whether W, or an item that is handed over alone, left room
-- for less than was asked for, and how soon to look again for what is due later (null: nothing is).
-- Its steps are parts/claim_*.sql: put in as they are, with its variables, because a function for each would cost every claim.
create or replace function pgdispatch.claim(owner text, at_most integer, lease interval,
                                 own_namespace text default null, namespaces text[] default '{}', allowed integer[] default '{}', watcher text default null)
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
    {{ template "parts/claim_room.sql" . }}

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
        {{ template "parts/claim_changes.sql" . }}
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
            {{ template "parts/claim_turn.sql" . }}
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
        {{ template "parts/claim_lanes.sql" . }}
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
    {{ template "parts/claim_answer.sql" . }}

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
