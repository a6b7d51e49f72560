-- What a claim is asked for, and how that stands: see claim(). A replica sends and receives them as JSON
-- objects with these names. A name that only one side knows is ignored or null, so versions may differ.

-- Items of one key queue, from a position on.
create type pgdispatch.claim_entry as (
    workspace_id uuid,
    priority     integer,
    limit_key    text,    -- null: items without one
    items        integer,
    burst        boolean, -- whether they may go beyond the limit of the workspace, up to its burst limit
    run_at       timestamptz,
    id           bigint,
    -- The workspace's receipt: none of its holders has a token below floor, and at most held have one up to held_to.
    floor        bigint,
    held         integer,
    held_to      bigint
);

create type pgdispatch.claim_proposal as (
    epoch      uuid,    -- of the receipts
    at_most    integer,
    -- The receipt of the leased items of all workspaces: at most leased have a token up to leased_to.
    leased     integer,
    leased_to  bigint,
    entries    pgdispatch.claim_entry[],
    unanswered integer, -- how many unanswered starts to repeat
    alone      boolean, -- whether to repeat one that may have killed its holders, with nothing beside it
    careful    boolean, -- whether to skip locked rows instead of waiting for them
    namespaces jsonb    -- how many items of each may be claimed; the others, and all if it is null, are not limited
);

-- A limit key: how many more items may hold a slot, how many more may start now, and in how many seconds another may once
-- those are used up. Null means no limit.
create type pgdispatch.claim_key as (room integer, starts integer, again double precision);

-- An entry, as the tables say.
create type pgdispatch.claim_standing as (
    granted      integer, -- how many of its items may be claimed
    slots        integer,
    burst_slots  integer,
    paused       boolean,
    wake_number  bigint,           -- null if the workspace was deleted
    rate         double precision, -- starts per second; null: no limit
    allows       double precision, -- what is left of the rate
    holders      bigint,           -- null if they were not counted, because the receipt was enough
    lowest_token bigint,           -- of the holders
    own          pgdispatch.claim_key, -- its limit key in the workspace
    shared       pgdispatch.claim_key  -- and over all workspaces
);

---- create above / drop below ----

-- With the functions that use them.
drop type pgdispatch.claim_standing, pgdispatch.claim_key, pgdispatch.claim_proposal, pgdispatch.claim_entry cascade;
