-- Workspaces with items due and since when they have waited, as far as their lanes know, the longest first, from a place in that
-- order on: those with room and those without, each from its own index. A rank is the seconds of waiting_from; null: from the first.
create or replace function pgdispatch.longest_waiting(from_rank double precision, from_id uuid, at_most bigint)
returns table (workspace_id uuid, waiting_from timestamptz)
language sql stable
-- By those indexes, however the table looked when it was last analyzed.
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
    with start (moment, id) as (
        select case when abs(from_rank) < 1e11 then to_timestamp(from_rank) when from_rank > 0 then 'infinity' else '-infinity' end,
               coalesce(from_id, '00000000-0000-0000-0000-000000000000')
    )
    (select l.workspace_id, l.waiting_from
     from pgdispatch.lanes l
     where l.active < l.slots and not l.paused and l.ready_priority is not null
       and l.waiting_from >= (select s.moment from start s)
       and (l.waiting_from, l.workspace_id) >= ((select s.moment from start s), (select s.id from start s))
     order by l.waiting_from, l.workspace_id
     limit at_most)
    union all
    (select l.workspace_id, l.waiting_from
     from pgdispatch.lanes l
     where (l.active >= l.slots or l.paused) and l.ready_priority is not null
       and l.waiting_from >= (select s.moment from start s)
       and (l.waiting_from, l.workspace_id) >= ((select s.moment from start s), (select s.id from start s))
     order by l.waiting_from, l.workspace_id
     limit at_most)
$$;
