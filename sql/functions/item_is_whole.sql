-- Whether an item has what belongs to its status, and nothing else: the table's constraint. A function, and in plpgsql, because every
-- statement that writes the table would read an expression of this length anew, at a higher cost than that of writing a row. Whatever
-- plpgsql evaluates costs each row that is written about as much as a lookup in an index: the states of the hand-over come first.
create or replace function pgdispatch.item_is_whole(status text, outcome_unknown boolean, claimed_by text, claimed_at timestamptz,
    lease_expires_at timestamptz, dispatched_at timestamptz, finished_at timestamptz, last_error text) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if status = 'CLAIMED' then
        return num_nulls(claimed_by, claimed_at, lease_expires_at) = 0 and num_nonnulls(dispatched_at, finished_at) = 0;
    elsif status = 'DISPATCHED' then
        return num_nulls(claimed_at, dispatched_at) = 0 and num_nonnulls(claimed_by, lease_expires_at, finished_at) = 0 and not outcome_unknown;
    elsif status = 'PENDING' then
        if num_nonnulls(claimed_by, claimed_at, lease_expires_at, dispatched_at, finished_at) > 0 then
            -- Said here, or every insert would pay for a condition of refuse_item, too.
            raise exception 'an item that waits has no claim, no lease and no end: they are set by pgdispatch, and by nobody else'
                using errcode = 'PGD07',
                      hint = 'Leave out claimed_by, claimed_at, lease_expires_at, dispatched_at and finished_at; a failed item is run again by pgdispatch.replay.',
                      constraint = 'a_status_has_what_belongs_to_it';
        end if;
        return true;
    elsif status = 'COMPLETED' then
        return num_nulls(claimed_at, dispatched_at, finished_at) = 0 and num_nonnulls(claimed_by, lease_expires_at) = 0 and not outcome_unknown;
    elsif status = 'FAILED' then
        return num_nulls(claimed_at, finished_at, last_error) = 0 and num_nonnulls(claimed_by, lease_expires_at) = 0 and not outcome_unknown;
    elsif status = 'CANCELLED' then
        return finished_at is not null and num_nonnulls(claimed_by, claimed_at, lease_expires_at, dispatched_at) = 0 and not outcome_unknown;
    end if;
    return false;
end;
$$;
