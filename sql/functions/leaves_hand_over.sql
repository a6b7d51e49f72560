-- Whether a move is one that item_moved looks at: all are but those of the hand-over itself, which concern no lane but the claim's.
create or replace function pgdispatch.leaves_hand_over(old_status text, new_status text) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    return not (new_status = 'CLAIMED' and old_status in ('PENDING', 'CLAIMED') or new_status = 'DISPATCHED' and old_status = 'CLAIMED');
end;
$$;
