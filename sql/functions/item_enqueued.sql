-- After an insert: every row must be valid, and every definition must exist and belong to its workspace. Then wakes a
-- dispatcher. One read-only check per statement, because a foreign key would lock the workspace's row in every
-- enqueuing transaction. If a definition is deleted later, its items fail when they are claimed.
create or replace function pgdispatch.item_enqueued() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    -- Short, because each insert pays for its preparation. A definition belongs to one existing workspace, so one
    -- lookup checks both. Not a join: a plan could start from the definitions, and would do so forever if the first
    -- insert had many rows.
    perform from enqueued e
    where (select d.workspace_id from pgdispatch.workflow_definitions d where d.id = e.workflow_definition_id) is distinct from e.workspace_id
       or jsonb_typeof(e.params) <> 'object' or octet_length(e.params::text) > 1966080
       or e.priority not between -100 and 100
       or e.run_at not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z'
       or length(e.idempotency_key) not between 1 and 200
       or length(e.limit_key) not between 1 and 200
       or e.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
       or e.start_options is not null and not pgdispatch.check_start_options(e.start_options, -- which names what is wrong
           (select d.start_options from pgdispatch.workflow_definitions d where d.id = e.workflow_definition_id), true)
       or e.attempt_count + e.failure_count + e.lost_lease_count + e.lease_token <> 0 or num_nonnulls(e.last_error, e.replay_of) > 0
       or e.outcome_unknown or e.created_at <> now() or e.enqueue_xid <> pg_current_xact_id()
    limit 1;

    if not found then
        -- The gate: notify only if a dispatcher sleeps. See functions/wake.sql.
        if {{ template "parts/sleeps.sql" }} then
            select count(*) as levels, bool_or(e.keyed) as keyed,
                   -- Not a join, which could read all workspaces.
                   string_agg(format('%s:%s:%s', (select w.wake_number from pgdispatch.workspaces w where w.id = e.workspace_id),
                                     e.priority, (extract(epoch from e.due) * 1000000)::bigint), ',') as named
            into bad
            from (select n.workspace_id, n.priority, min(n.run_at) as due, bool_or(n.limit_key is not null) as keyed
                  from enqueued n group by n.workspace_id, n.priority limit 5) e;
            if bad.levels > 0 then -- "on conflict do nothing" may have left no row
                perform pg_notify('pgdispatch', case when bad.levels < 5 and not bad.keyed then bad.named else '' end);
            end if;
        end if;
        return null;
    end if;

    for bad in
        select e.* from enqueued e
    loop
        perform pgdispatch.check_values(bad.params, bad.priority, bad.run_at, bad.idempotency_key, bad.traceparent);
        if length(bad.limit_key) not between 1 and 200 then
            raise exception 'limit_key has % characters: it must have 1 to 200', length(bad.limit_key)
                using errcode = 'PGD12', hint = 'Omit it, or use a hash of the key.';
        end if;
        perform pgdispatch.check_definition(bad.workspace_id, bad.workflow_definition_id);
    end loop;
    raise exception 'an insert must not set status, attempts, errors, claims, leases or times of an item: pgdispatch sets them'
        using errcode = 'PGD07',
              hint = 'Set only workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, '
                  'start_options, limit_key.';
end;
$$;
