-- The state machine: every move there is, and no other. A status that stays is no move.
-- In plpgsql, because a function in SQL would be copied into each trigger's condition, and read anew by each statement.
create or replace function pgdispatch.may_move(old_status text, new_status text) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    return old_status = new_status or (old_status, new_status) in (
        ('PENDING',    'CLAIMED'),    -- claim: lease taken, attempt counted, execution row there
        ('PENDING',    'CANCELLED'),  -- withdrawn before it was claimed
        ('CLAIMED',    'DISPATCHED'), -- Temporal has the workflow
        ('CLAIMED',    'PENDING'),    -- released, to be tried again, or lease expired
        ('CLAIMED',    'FAILED'),     -- failed for good
        ('DISPATCHED', 'COMPLETED'),  -- the workflow completed
        ('DISPATCHED', 'FAILED')      -- it failed, timed out, was cancelled or terminated
    );
end;
$$;
