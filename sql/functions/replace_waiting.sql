-- For enqueue: gives new values to the item that holds a key; null leaves one as it is. quiet and at_most set run_at.
-- Returns false if the item has been claimed, has ended, or has lost its key. Waits for a claim that is under way, and
-- then keeps no lock on what it claimed: that would hold up the replica, and could end in a deadlock.
create or replace function pgdispatch.replace_waiting(execution uuid, params jsonb, priority integer, run_at timestamptz, traceparent text,
    start_options jsonb, quiet interval, at_most interval) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
begin -- with an exception handler, so a subtransaction: a lock is released only at the end of one
    -- The key first: a transaction that tries to take it keeps its lock, and may want the item next.
    perform from pgdispatch.enqueue_keys k
    where k.item_id = (select q.id from pgdispatch.workflow_execution_queue q where q.execution_id = execution)
      and num_nonnulls(replace_waiting.quiet, replace_waiting.run_at) > 0
    for no key update;
    perform from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id)
    for no key update;
    -- A statement of its own, which sees who holds the key now. The time is that of the call that comes last.
    update pgdispatch.workflow_execution_queue q
    set params = replace_waiting.params,
        priority = coalesce(replace_waiting.priority, q.priority),
        run_at = coalesce(least(clock_timestamp() + quiet, least(q.created_at, clock_timestamp()) + at_most),
                          replace_waiting.run_at, q.run_at),
        created_at = least(q.created_at, clock_timestamp()), -- earlier only if the clock was set back: see bring_back
        traceparent = coalesce(replace_waiting.traceparent, q.traceparent),
        start_options = coalesce(replace_waiting.start_options, q.start_options)
    where q.execution_id = execution and q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id)
      and exists (select from pgdispatch.enqueue_keys k where k.item_id = q.id);
    if not found then
        raise sqlstate 'PGD00';
    end if;
    -- Says whether run_at is pgdispatch's: see bring_back.
    update pgdispatch.enqueue_keys k
    set debounced_at = case when quiet is not null then clock_timestamp() end
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and k.item_id = q.id
      and (quiet is not null or num_nonnulls(replace_waiting.run_at, k.debounced_at) = 2);
    return true;
exception
    when sqlstate 'PGD00' then return false;
end;
$$;
