-- Whether an item counts against its workspace's limit: it is being handed over, or was, or may have been.
create or replace function pgdispatch.holds_slot(status text, outcome_unknown boolean) returns boolean
language sql immutable parallel safe
return status in ('CLAIMED', 'DISPATCHED') or (status = 'PENDING' and outcome_unknown);
