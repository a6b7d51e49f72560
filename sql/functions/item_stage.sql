-- The stage of an item, as claims see it: see the column. Rejects an item whose columns do not match its status: this
-- is the table's one constraint, evaluated where the stage is. In plpgsql, because each statement that writes the table
-- would parse a plain expression of this length again. The states of the hand-over come first, because every item
-- passes through them.
create or replace function pgdispatch.item_stage(status text, outcome_unknown boolean, claimed_by text, claimed_at timestamptz,
    lease_expires_at timestamptz, dispatched_at timestamptz, finished_at timestamptz, last_error text) returns text
language plpgsql immutable parallel safe
as $$
begin
    if status = 'CLAIMED' then
        if num_nulls(claimed_by, claimed_at, lease_expires_at) = 0 and num_nonnulls(dispatched_at, finished_at) = 0 then
            return 'HOLDS';
        end if;
    elsif status = 'DISPATCHED' then
        if num_nulls(claimed_at, dispatched_at) = 0 and num_nonnulls(claimed_by, lease_expires_at, finished_at) = 0 and not outcome_unknown then
            return 'HOLDS';
        end if;
    elsif status = 'PENDING' then
        if num_nonnulls(claimed_by, claimed_at, lease_expires_at, dispatched_at, finished_at) = 0 then
            return case when outcome_unknown then 'DOUBT' else 'WAITS' end;
        end if;
        raise exception 'a PENDING item must not have a claim, lease or end: pgdispatch sets them'
            using errcode = 'PGD07',
                  hint = 'Omit claimed_by, claimed_at, lease_expires_at, dispatched_at and finished_at. '
                      'To run a failed item again, use pgdispatch.replay.',
                  constraint = 'a_status_has_what_belongs_to_it';
    elsif status = 'COMPLETED' then
        if num_nulls(claimed_at, dispatched_at, finished_at) = 0 and num_nonnulls(claimed_by, lease_expires_at) = 0 and not outcome_unknown then
            return null;
        end if;
    elsif status = 'FAILED' then
        if num_nulls(claimed_at, finished_at, last_error) = 0 and num_nonnulls(claimed_by, lease_expires_at) = 0 and not outcome_unknown then
            return 'DEAD';
        end if;
    elsif status = 'CANCELLED' then
        if finished_at is not null and num_nonnulls(claimed_by, claimed_at, lease_expires_at, dispatched_at) = 0 and not outcome_unknown then
            return null;
        end if;
    end if;
    raise exception 'columns of the item do not match its status %: see docs/lifecycle.md', coalesce(status, 'null')
        using errcode = 'PGD27', hint = 'Do not update status: use pgdispatch.finish, cancel or replay.',
              constraint = 'a_status_has_what_belongs_to_it';
end;
$$;
