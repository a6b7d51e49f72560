-- All transitions are defined here. An unchanged status is not a transition and is allowed.
-- In plpgsql, because an SQL function would be inlined into each trigger's condition and parsed by each statement.
create or replace function pgdispatch.may_move(old_status text, new_status text) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    return old_status = new_status or (old_status, new_status) in (
        ('PENDING',    'CLAIMED'),    -- claim: takes a lease, counts the attempt, writes the execution row
        ('PENDING',    'CANCELLED'),  -- withdrawn before it was claimed
        ('CLAIMED',    'DISPATCHED'), -- Temporal has the workflow
        ('CLAIMED',    'PENDING'),    -- released, retried, or lease expired
        ('CLAIMED',    'FAILED'),     -- failed permanently
        ('DISPATCHED', 'COMPLETED'),  -- the workflow completed
        ('DISPATCHED', 'FAILED')      -- it failed, timed out, was cancelled or terminated
    );
end;
$$;
