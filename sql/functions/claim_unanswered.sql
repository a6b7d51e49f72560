-- PENDING -> CLAIMED, for claim: items whose start was sent and not answered, the oldest first, and where
-- only_these is not null, only these. They hold their slots already, and only an answer can free them.
--
-- Whoever held such an item may have died of it, and what was held beside it was lost with it each time. So an item that lost
-- two holders is a suspect: it is claimed alone, by an owner that holds nothing else. While the oldest is a suspect, an owner
-- that holds anything gets nothing (claimed is empty, alone is true) until its hand-overs have ended, or until another took the
-- suspect, whichever is first.
create or replace function pgdispatch.claim_unanswered(owner text, at_most integer, lease interval, start_time timestamptz, token_floor bigint, only_these bigint[],
                                            out claimed bigint[], out alone boolean)
language sql volatile
as $$
    with unanswered as materialized (
        select q.id, q.run_at, q.lost_lease_count >= 2 as suspect
        from pgdispatch.workflow_execution_queue q
        where q.status = 'PENDING' and q.outcome_unknown and q.run_at <= start_time
          and (only_these is null or q.id = any (only_these))
          and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
        order by q.run_at, q.id
        limit at_most
        for update of q skip locked
    ), oldest as materialized (
        select u.id, u.suspect, u.suspect and exists (
                   select from pgdispatch.workflow_execution_queue q
                   where q.status = 'CLAIMED' and q.lease_token >= token_floor and q.claimed_by = owner
                     and q.lease_expires_at > start_time) as waits
        from unanswered u
        order by u.run_at, u.id
        limit 1
    ), taken as (
        {{ template "parts/take.sql" }}
        where q.id = any (array(
            select u.id
            from unanswered u
            cross join oldest o
            where case when o.suspect then u.id = o.id and not o.waits else not u.suspect end))
        returning q.id
    )
    select (select coalesce(array_agg(t.id), '{}') from taken t), coalesce((select o.suspect from oldest o), false);
$$;
