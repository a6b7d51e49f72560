-- Every change in commit order.
select kind, coalesce(item, 0), coalesce(execution::text, ''), coalesce(workspace::text, ''),
       coalesce(old_status, ''), coalesce(new_status, ''), coalesce(old_token, 0), coalesce(new_token, 0),
       coalesce(old_holds, false), coalesce(new_holds, false), coalesce(old_owner, ''), coalesce(new_owner, ''),
       coalesce(old_lease, began), coalesce(new_lease, began),
       moved_at, coalesce(new_limit, 0), coalesce(new_paused, false),
       began, at, pg_xact_commit_timestamp(xid::xid), xid::text::bigint
from chaos.changes
order by pg_xact_commit_timestamp(xid::xid), xid, seq
