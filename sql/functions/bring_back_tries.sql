-- For bring_back: signals, stop requests and running executions. A request that was never tried is tried now. Another one
-- may be under way; it is tried again when the present try is over. An execution was started, or asked about, now.
create or replace function pgdispatch.bring_back_tries(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    backoff constant interval := '30 seconds'; -- the longest, in settle_signals and take_stops
    brought integer;
begin
    with turn as (
        update pgdispatch.signal_turn set looked_at = at_time
        where {{ template "parts/ahead.sql" "signal_turn a where a.looked_at > soon" }}
        returning 1
    ), signals as (
        update pgdispatch.signals set next_try_at = at_time + case when tries > 0 then backoff else '0' end
        where {{ template "parts/ahead.sql" `signals a where a.state = 'OPEN' and a.next_try_at < 'infinity'
              and a.next_try_at > soon + case when a.tries > 0 then backoff else '0' end` }}
        returning 1
    ), stops as (
        update pgdispatch.stop_requests set next_try_at = at_time + case when tries > 0 then backoff else '0' end
        where {{ template "parts/ahead.sql" `stop_requests a where a.state = 'OPEN'
              and a.next_try_at > soon + case when a.tries > 0 then backoff else '0' end` }}
        returning 1
    ), executions as (
        update pgdispatch.workflow_executions
        set started_at = case when started_at > at_time then at_time else started_at end,
            asked_at = case when asked_at > at_time then at_time else asked_at end,
            first_sent_at = case when first_sent_at > at_time then at_time else first_sent_at end
        where {{ template "parts/ahead.sql" `workflow_executions a where a.finished_at is null
              and greatest(a.started_at, a.asked_at, a.first_sent_at) > soon` }}
        returning 1
    )
    select count(*) into brought
    from (select from turn union all select from signals union all select from stops union all select from executions) b;
    return brought;
end;
$$;
