-- Every change in commit order. When the server's clock jumped, everything from before the jump had ended.
select c.kind, coalesce(c.item, 0), coalesce(c.execution::text, ''), coalesce(c.workspace::text, ''), coalesce(c.key, ''),
       coalesce(c.policy_key, ''), coalesce(c.marker, ''),
       coalesce(c.old_status, ''), coalesce(c.new_status, ''), coalesce(c.old_token, 0), coalesce(c.new_token, 0),
       coalesce(c.old_holds, false), coalesce(c.new_holds, false), coalesce(c.old_owner, ''), coalesce(c.new_owner, ''),
       coalesce(c.old_lease - c.ahead, c.began), coalesce(c.new_lease - c.ahead, c.began),
       c.moved_at - c.ahead, c.start_before, coalesce(c.new_limit, -1), coalesce(c.new_paused, false), coalesce(c.new_rate, 0),
       coalesce(c.new_starts, '{}'), coalesce(c.new_periods, '{}'), coalesce(c.new_keep, 0), coalesce(c.new_keep_failed, 0),
       c.began, c.at, pg_xact_commit_timestamp(c.xid::xid) - c.ahead, c.xid::text::bigint, extract(epoch from c.ahead)::bigint
from (
    select j.*, sum(j.jumped) over (order by j.seq) as clock
    from (select c.*, (c.ahead is distinct from lag(c.ahead) over (order by c.seq))::integer as jumped from chaos.changes c) j
) c
order by c.clock, pg_xact_commit_timestamp(c.xid::xid), c.xid, c.seq
