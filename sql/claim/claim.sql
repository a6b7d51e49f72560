-- The claim, as a procedure: it serves every proposal. rare.sql has what few claims need.

{{- /* The IDs of the items that a claim skips. */ -}}
{{ define "parked" -}}
array(select i.item_id from pgdispatch.parked_items i where i.try_at > at_time)
{{ end }}
{{- /* For claim_rows: the rows of each entry's grant, and the one after them. The argument picks the limit key. */ -}}
{{ define "heads" -}}
unnest(p.entries) with ordinality e
            cross join lateral (
                select q.ctid as at, e.ordinality as place, q.run_at, q.id, q.run_at <= at_time
                       and row_number() over (order by q.limit_key, q.run_at, q.id) <= grants[e.ordinality] as gets
                from pgdispatch.workflow_execution_queue q
                where q.workspace_id = e.workspace_id and q.priority = e.priority and q.stage = 'WAITS'
                  and {{ . }}
                  and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id) and q.id <> all (parked)
                order by q.limit_key, q.run_at, q.id limit grants[e.ordinality] + 1
            ) h
{{ end }}
{{- /* For claim_rows: the first row of an entry that is not among the heads. The argument picks the limit key. */ -}}
{{ define "next" -}}
select e.ordinality as place, q.run_at, q.id
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = e.workspace_id and q.priority = e.priority and q.stage = 'WAITS'
               and {{ . }}
               and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id)
               and q.ctid <> all (coalesce(heads, '{}')) and q.id <> all (parked)
             order by q.limit_key, q.run_at, q.id limit 1
{{ end }}
{{- /* For claim_rows: the positions of rows h of entries, in JSON. */ -}}
{{ define "positions" -}}
json_agg(json_build_object('entry', h.place, 'run_at', h.run_at, 'id', h.id))
{{ end }}

-- name: claim
-- PENDING -> CLAIMED; CLAIMED -> PENDING
-- $1 owner, $2 lease, $3 watcher, $4 the owner's namespace, $5 the proposal, a claim_proposal in JSON. The last row has no
-- item: see the function.
select c.* from pgdispatch.claim($1, $2, $3, $4, $5::text::jsonb) c

-- name: claim_head
-- CLAIMED -> PENDING
-- The item that a claim of one is about to take. Run it just before the claim, with the claim's owner, namespace and
-- proposal. It takes claim_lock, so that the claim after it in the same transaction takes the same item.
select q.id, q.workspace_id
from pgdispatch.claim_pick($1, $2, jsonb_populate_record(null::pgdispatch.claim_proposal, $3::text::jsonb)) c
join pgdispatch.workflow_execution_queue q on q.ctid = c.heads[1]

-- name: node_ids
-- reads
-- The node IDs of definition versions ($1), as stored, for the replica's memory: a claim returns the revision of an item's
-- version, which changes with every update of its row.
select v.id::text, v.xmin::text as revision, v.node_ids::text
from pgdispatch.workflow_definition_versions v where v.id = any ($1::text[]::uuid[])

-- function: claim
-- PENDING -> CLAIMED. Claims the items that a proposal asks for, as far as the limits allow, and returns what is needed to
-- start them, but for their node IDs (see the statement node_ids). The caller's memory has decided whose turn it is (see
-- package claim/schedule) and may be wrong in any way: claim_pick checks the proposal against the tables. watcher is the
-- replica that will watch the executions; null means no room. The settle decides it, and if it writes the same value, no
-- index entry changes. Definitions without a namespace use own_namespace. The last row has no item, but the standing. A
-- receipt in it is true once this transaction has committed.
drop function if exists pgdispatch.claim(text, interval, text, text, jsonb); -- it returned other columns
create or replace function pgdispatch.claim(owner text, lease interval, watcher text, own_namespace text, proposal jsonb)
returns table (
    id bigint, token bigint, execution_id text, workspace_id text, workflow_definition_id text,
    workflow_definition_version_id text, namespace text, kind text, workflow_type text, task_queue text, input text, execution_timeout interval,
    version_revision text, params text, traceparent text, attempt_count integer, failure_count integer, max_attempts integer,
    outcome_unknown boolean,
    unanswered_for interval, tries integer, failing_for interval, missing_for interval, last_error text, given_up_by text,
    problem text, waited interval, priority integer, start_options text, limit_key text, workflow_id text,
    workflow_id_policy text, standing json
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    p pgdispatch.claim_proposal := jsonb_populate_record(null::pgdispatch.claim_proposal, proposal);
    workspaces uuid[] := array(select e.workspace_id from unnest(p.entries) e);
    priorities integer[] := array(select e.priority from unnest(p.entries) e);
    c record;
begin
    c := pgdispatch.claim_pick(owner, own_namespace, p);
    if c.epoch is null and cardinality(c.heads) > 0 then
        {{ template "begin_epoch" }};
    end if;
    return query
    with taken as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
            lease_expires_at = clock_timestamp() + lease, lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = q.attempt_count + 1
        where q.ctid = any (c.heads) and q.run_at <= c.at_time -- skips rows that changed since they were chosen
          -- For start_before, see cancel_late.
          and (q.stage = 'WAITS' and q.workspace_id = any (workspaces) and q.priority = any (priorities)
                   and (q.start_before > c.at_time or q.failure_count > 0) is not false
               or p.unanswered > 0 and q.stage = 'DOUBT')
        returning q.*
    ), item as materialized (
        select q.*, v.id as version_id, v.revision, d.input, d.workflow_type, d.task_queue, d.execution_timeout, d.max_attempts, d.workflow_id_policy,
               case when num_nonnulls(d.start_options, q.start_options) > 0 then
                   (coalesce(d.start_options, '{}') || coalesce(q.start_options, '{}'))::text
               end as options,
               -- A start that may have arrived is repeated unchanged; otherwise the definition may have been corrected.
               coalesce(case when x.sent then e.namespace end, d.namespace, own_namespace) as namespace,
               coalesce(case when x.sent then e.kind end, d.kind, 'workflow') as kind,
               x.sent, case when x.sent then coalesce(e.first_sent_at, q.created_at) else c.at_time end as first_sent_at,
               t.tries, c.at_time - t.since as failing_for, t.given_up_by,
               case when t.missing_at > c.at_time - interval '3 minutes' then c.at_time - t.missing_since end as missing_for,
               case
                   when (d.id is null or v.id is null and d.input = 'envelope') and cardinality(pgdispatch.hidden_tables()) > 0
                       then 'rows are hidden'
                   when d.id is null and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id) then 'workspace not found'
                   when d.id is null then 'workflow definition not found'
                   when v.id is null and d.input = 'envelope' then 'workflow definition has no version'
                   when q.lost_lease_count >= 3 then 'holder lost three times, the last time with this item alone'
               end as problem
        from taken q
        left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
        left join lateral (select e.namespace, e.kind, e.first_sent_at, e.workflow_definition_version_id as version_id,
                                  e.first_sent_at is null as unsent
                           from pgdispatch.workflow_executions e where q.outcome_unknown and e.id = q.execution_id offset 0) e on true
        cross join lateral (select q.outcome_unknown and e.unsent is not true as sent) x
        left join lateral (select t.tries, t.since, t.given_up_by, t.missing_since, t.missing_at
                           from pgdispatch.start_tries t where q.outcome_unknown and t.item_id = q.id offset 0) t on true
        left join lateral (
            select v.id, v.xmin::text as revision from pgdispatch.workflow_definition_versions v
            where v.workflow_definition_id = q.workflow_definition_id and (not x.sent or v.id = coalesce(e.version_id, v.id))
            order by v.version desc limit 1
        ) v on true
    ), execution as ( -- the row exists before its start is sent
        insert into pgdispatch.workflow_executions as e
            (id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, namespace, kind, watcher,
             first_sent_at, workflow_id)
        select i.execution_id, i.id, i.workspace_id, i.workflow_definition_id, i.version_id, i.namespace, i.kind, watcher,
               i.first_sent_at, i.workflow_id from item i where i.workflow_type is not null and (i.version_id is not null or i.input <> 'envelope')
        on conflict (id) do update set
            workflow_definition_version_id = excluded.workflow_definition_version_id, namespace = excluded.namespace, watcher = excluded.watcher,
            first_sent_at = excluded.first_sent_at
    )
    select i.id, i.lease_token, i.execution_id::text, i.workspace_id::text, i.workflow_definition_id::text,
           coalesce(i.version_id::text, ''), coalesce(i.namespace, ''), i.kind, coalesce(i.workflow_type, ''), coalesce(i.task_queue, ''),
           coalesce(i.input, ''), coalesce(i.execution_timeout, '0'), coalesce(i.revision, ''), i.params::text, coalesce(i.traceparent, ''),
           i.attempt_count, i.failure_count, coalesce(i.max_attempts, 0), i.outcome_unknown,
           case when i.workflow_id is not null and not i.sent and not exists (select from pgdispatch.epoch e where e.items_to < i.id)
                then greatest(c.at_time - i.created_at, '1 us')
                when i.sent then greatest(c.at_time - i.first_sent_at, '1 us')
                else '0'
           end,
           coalesce(i.tries, 0), coalesce(i.failing_for, '0'), coalesce(i.missing_for, '0'),
           case when i.outcome_unknown then coalesce(i.last_error, '') else '' end,
           coalesce(i.given_up_by, ''), coalesce(i.problem, ''),
           c.at_time - greatest(i.created_at, i.run_at), i.priority, i.options, coalesce(i.limit_key, ''),
           coalesce(i.workflow_id, ''), case when i.workflow_id is not null then coalesce(i.workflow_id_policy, '') else '' end, null::json
    from item i;
    perform pgdispatch.claim_debits(p.entries, c.entries, c.last_token, c.at_time) where c.rated;
    c.heads := null;
    c.took := extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000; -- microseconds, without commit
    return query select 0::bigint, 0::bigint, '', '', '', '', '', '', '', '', '', interval '0', '', null, '', 0, 0, 0, false,
        interval '0', 0, interval '0', interval '0', '', '', '', interval '0', 0, null, '', '', '', to_json(c);
end;
$$;

-- function: claim_pick
-- For claim: takes its lock, re-reads the limits, counts who holds slots, and returns which rows to claim and how the
-- entries of the proposal stand. The receipts in the proposal only save counting. Each item that comes to hold a slot
-- draws the next token, so at most held + (last token - held_to) items of a workspace hold one. If that plus the items of
-- its entry is not below the limit, the holders are counted, from floor on. A receipt is true only while no commit is
-- lost, so one of another epoch is ignored.
--
-- The entries of one workspace share what it has, in their order. The holders of an entry in a burst are always counted,
-- so that the memory learns when the workspace is within its limit again. room is what W leaves in total. An owner that
-- holds an item that was lost twice gets nothing. next are the first positions left of the entries, due or not.
create or replace function pgdispatch.claim_pick(owner text, own_namespace text, p pgdispatch.claim_proposal,
    out at_time timestamptz, out epoch uuid, out paused boolean, out room integer, out last_token bigint, out tokens bigint[],
    out entries pgdispatch.claim_standing[], out next json, out rated boolean, out heads tid[], out took bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    asked pgdispatch.claim_entry[];
    workspaces uuid[];
    keyed boolean; -- whether an entry has a limit key
    key_rated boolean; -- whether one of them has a rate
    known boolean; -- whether the receipts are of this epoch
    expired boolean;
    lost integer; -- how often, of what the owner holds
    e pgdispatch.claim_entry;
    s pgdispatch.claim_standing;
    slots integer; -- of the entry's workspace
    holders bigint; -- or more than hold
    most integer; -- over all entries
    first integer; -- entry of the workspace
    used integer[]; -- of what the workspace has, by its first entry
    repeated tid[];
begin
    perform pgdispatch.lock_claims();
    at_time := clock_timestamp();
    last_token := coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0);
    select s.paused, s.max_claims, e.id into paused, room, epoch
    from pgdispatch.settings s left join pgdispatch.epoch e on true;
    select l.entries, l.workspaces, l.keyed, l.rated into entries, workspaces, keyed, rated
    from pgdispatch.claim_limits(p, at_time) l;
    known := coalesce(epoch = p.epoch, false);
    if not known then
        p.leased := 0;
        p.leased_to := (select m.leased_from - 1 from pgdispatch.mark_trim m);
    end if;
    select array_agg(q.lease_token), coalesce(min(q.lease_expires_at) <= at_time, false),
           max(q.lost_lease_count) filter (where q.claimed_by = owner and q.lease_expires_at > at_time)
    into tokens, expired, lost
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.status = 'CLAIMED' and q.lease_token > p.leased_to;
    room := case when paused or lost >= 2 or p.alone and lost is not null then 0
                 else greatest(room - p.leased - coalesce(cardinality(tokens), 0), 0) end;
    asked := p.entries;
    if keyed then
        select k.asked, k.entries, k.rated into asked, entries, key_rated
        from pgdispatch.claim_key_limits(p.entries, entries, at_time) k;
        rated := rated or key_rated;
    end if;
    used := array_fill(0, array[coalesce(cardinality(asked), 0)]);
    for n in 1 .. cardinality(used) loop
        e := asked[n];
        s := entries[n];
        slots := case when e.burst then s.burst_slots else s.slots end;
        holders := case when known and e.held_to <= last_token then e.held + (last_token - e.held_to) end;
        if e.burst or (holders + e.items < slots) is not true then
            select count(*), min(q.lease_token) into s.holders, s.lowest_token
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = e.workspace_id and q.stage in ('HOLDS', 'DOUBT') -- as a pair: see claim_plain
              and (q.workspace_id, q.lease_token) >= (e.workspace_id, case when known and e.held_to <= last_token then e.floor else 0 end);
            holders := s.holders;
        end if;
        if not s.paused then
            first := array_position(workspaces, e.workspace_id);
            s.granted := greatest(least(e.items, slots - holders - used[first], floor(s.allows) - used[first]), 0);
            used[first] := used[first] + s.granted;
        end if;
        entries[n] := s;
    end loop;
    if expired then
        perform pgdispatch.requeue_expired(1000); -- does not wait for a sweeper; they still count in this claim
    end if;
    most := least(p.at_most, room);
    if p.unanswered > 0 and most > 0 then
        repeated := pgdispatch.claim_unanswered(least(p.unanswered, most), own_namespace, p, at_time);
        -- While namespaces are limited, nothing is claimed besides repeated starts.
        most := case when cardinality(repeated) > 0 and p.namespaces is not null then 0 else most - cardinality(repeated) end;
    end if;
    select repeated || h.heads, h.next into heads, next
    from pgdispatch.claim_rows(own_namespace, p, entries, keyed, most, at_time) h;
end;
$$;

-- function: claim_limits
-- For claim_pick: re-reads the limits and the rates of the entries' workspaces. keyed is whether an entry has a limit key,
-- and rated whether a workspace has a rate.
create or replace function pgdispatch.claim_limits(p pgdispatch.claim_proposal, at_time timestamptz, out entries pgdispatch.claim_standing[],
    out workspaces uuid[], out keyed boolean, out rated boolean)
language plpgsql volatile
as $$
begin
    select array_agg(row(0, n.slots, pgdispatch.burst_limit(n.slots, coalesce(w.max_burst_workflows, t.max_burst_workflows)),
               coalesce(w.paused, false), w.wake_number, w.max_starts_per_second,
               -- Refilled at the rate that applied until now, to at most one second's worth of it.
               case when w.max_starts_per_second is not null then least(greatest(w.max_starts_per_second, 1), (
                   select least(greatest(r.per_second, 1), r.tokens + r.per_second * greatest(extract(epoch from at_time - r.at), 0))
                   from pgdispatch.rates r where r.workspace_id = w.id)) end,
               null, null, null, null)::pgdispatch.claim_standing),
           array_agg(a.workspace_id), count(a.limit_key) > 0, count(w.max_starts_per_second) > 0
    into entries, workspaces, keyed, rated
    from unnest(p.entries) a
    left join (pgdispatch.workspaces w join pgdispatch.workspace_tiers t on t.plan = w.plan) on w.id = a.workspace_id
    -- A deleted workspace keeps one slot, through which its items are failed one by one.
    cross join lateral (select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) as slots) n;
end;
$$;

-- function: claim_rows
-- For claim_pick: the rows to claim for each entry's grant, ordered by run_at; in total at most `most`, in the order of the
-- entries. next are the first rows that it leaves of the entries.
create or replace function pgdispatch.claim_rows(own_namespace text, p pgdispatch.claim_proposal, entries pgdispatch.claim_standing[],
    keyed boolean, most integer, at_time timestamptz, out heads tid[], out next json)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    parked bigint[] := {{ template "parked" }};
    grants integer[] := array(select s.granted from unnest(entries) s);
begin
    if p.careful or p.namespaces is not null then
        heads := pgdispatch.claim_rows_around(own_namespace, p, grants, parked, at_time);
    elsif keyed then
        select array_agg(h.at order by h.place, h.run_at, h.id) filter (where h.gets),
               {{ template "positions" }} filter (where not h.gets)
        into heads, next
        from (
            select h.* from {{ template "heads" "e.limit_key is null and q.limit_key is null" }}
            union all
            select h.* from {{ template "heads" "q.limit_key = e.limit_key" }}
        ) h;
    else
        select array_agg(h.at) filter (where h.gets),
               {{ template "positions" }} filter (where not h.gets)
        into heads, next
        from {{ template "heads" "q.limit_key is null" }};
    end if;
    if p.careful or p.namespaces is not null or cardinality(heads) > most then
        heads := heads[1:most];
        select {{ template "positions" }} into next
        from unnest(p.entries) with ordinality e
        cross join lateral (
            ({{ template "next" "e.limit_key is null and q.limit_key is null" }})
            union all
            ({{ template "next" "q.limit_key = e.limit_key" }})
        ) h;
    end if;
end;
$$;

-- function: claim_unanswered
-- For claim_pick: rows whose start was sent and not answered, oldest first. They already hold their slots, and only an
-- answer can free them. Such an item may have killed its holder, so one that lost two holders is claimed alone.
create or replace function pgdispatch.claim_unanswered(at_most integer, own_namespace text, p pgdispatch.claim_proposal, at_time timestamptz)
returns tid[]
language plpgsql volatile
as $$
begin
    return array(
        select d.at from (
            select u.at, u.lane, row_number() over (partition by u.lane order by u.run_at, u.id) as nth from (
                select q.ctid as at, q.run_at, q.id, l.lane
                from pgdispatch.workflow_execution_queue q
                left join pgdispatch.workflow_executions e on e.id = q.execution_id and e.first_sent_at is not null
                left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
                cross join pgdispatch.lane(coalesce(e.namespace, d.namespace, own_namespace), coalesce(e.kind, d.kind)) as l (lane)
                where q.stage = 'DOUBT' and q.run_at <= at_time
                  and q.id <> all ({{ template "parked" }})
                  and (q.lost_lease_count >= 2) = p.alone
                  and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
                  and coalesce((p.namespaces ->> l.lane)::integer, 1) > 0
                order by q.run_at, q.id limit at_most for update of q skip locked
            ) u
        ) d
        where d.nth <= coalesce((p.namespaces ->> d.lane)::integer, d.nth)
    );
end;
$$;

-- function: lane
-- What accepts or refuses starts as one: a namespace's workflows, named as it is, or its activities, which a server of an
-- earlier version does not start. See claim.Item.Lane.
create or replace function pgdispatch.lane(namespace text, kind text) returns text
language sql immutable parallel safe
as $$ select case kind when 'activity' then namespace || ' activities' else namespace end $$;

-- function: burst_limit
-- How many items of a workspace may hold slots while no other workspace needs the workers. Null as burst means no more
-- than its limit. A limit of 0 starts nothing.
create or replace function pgdispatch.burst_limit(max_concurrent integer, burst integer) returns integer
language sql immutable
as $$ select case when max_concurrent > 0 then greatest(max_concurrent, burst) else max_concurrent end $$;
