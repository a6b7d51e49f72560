{{- /* Finds signals that wait for nothing any more, because the replica that was to wake them died or is an older version. */ -}}
if turn.looked_at < clock_timestamp() - look_again then
        with looked as materialized (
            select s.id, s.execution_id from pgdispatch.signals s
            where s.state = 'OPEN' and s.next_try_at = 'infinity' and s.id > turn.after_id
            order by s.id limit page
        ), missed as (
            update pgdispatch.signals s set next_try_at = clock_timestamp()
            where s.id = any (array(
                select l.id from looked l
                where not exists (select from pgdispatch.workflow_execution_queue q
                                  where q.execution_id = l.execution_id and q.status in ('PENDING', 'CLAIMED'))
                  and not exists (select from pgdispatch.signals o where o.execution_id = l.execution_id and o.state = 'OPEN' and o.id < l.id)))
        )
        update pgdispatch.signal_turn
        set looked_at = clock_timestamp(), after_id = coalesce((select max(l.id) from looked l having count(*) = page), 0);
    end if;
