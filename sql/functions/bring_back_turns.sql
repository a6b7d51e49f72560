-- For bring_back: what was done ahead was done now. What is drawn by the minute is deleted instead, or the present minutes
-- would count as recorded.
create or replace function pgdispatch.bring_back_turns(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    brought integer;
begin
    with close_sweep as (
        update pgdispatch.close_sweep set looked_at = at_time
        where {{ template "parts/ahead.sql" "close_sweep a where a.looked_at > soon" }}
        returning 1
    ), close_lists as ( -- swept_to is Temporal's time; a list that begins earlier only costs more
        update pgdispatch.close_lists
        set wide_at = least(wide_at, at_time), swept_to = case when swept_to > at_time then at_time else swept_to end
        where {{ template "parts/ahead.sql" "close_lists a where greatest(a.wide_at, a.swept_to) > soon" }}
        returning 1
    ), mark_trim as (
        update pgdispatch.mark_trim set next_at = at_time
        where {{ template "parts/ahead.sql" "mark_trim a where a.next_at > soon + interval '30 seconds'" }}
        returning 1
    ), retention_walk as (
        update pgdispatch.retention_walk set next_pass_at = at_time
        where {{ template "parts/ahead.sql" "retention_walk a where a.next_pass_at > soon + interval '1 minute'" }}
        returning 1
    ), stall_look as (
        update pgdispatch.stall_look set looked_at = at_time
        where {{ template "parts/ahead.sql" "stall_look a where a.looked_at > soon" }}
        returning 1
    ), stalls as (
        update pgdispatch.stalls set since = at_time
        where {{ template "parts/ahead.sql" "stalls a where a.since > soon" }}
        returning 1
    ), replicas as (
        update pgdispatch.replicas set renewed_at = at_time, expires_at = at_time + (expires_at - renewed_at)
        where {{ template "parts/ahead.sql" "replicas a where a.renewed_at > soon" }}
        returning 1
    ), activity as (
        delete from pgdispatch.activity
        where {{ template "parts/ahead.sql" "activity a where a.minute > soon" }}
        returning 1
    ), workspace_activity as (
        delete from pgdispatch.workspace_activity
        where {{ template "parts/ahead.sql" "workspace_activity a where a.at > soon" }}
        returning 1
    )
    select count(*) into brought
    from (select from close_sweep union all select from close_lists union all select from mark_trim union all select from retention_walk
          union all select from stall_look union all select from stalls union all select from replicas
          union all select from activity union all select from workspace_activity) b;
    return brought;
end;
$$;
