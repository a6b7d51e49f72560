{{- /* For claim: one turn. It takes the next items of the highest level that is ready, from the lanes that were served least recently. */ -}}
with candidate as (
    {{ template "parts/candidates.sql" "room" }}
), top as materialized (
    select c.*, least(count(*) over (), room - cardinality(claimed)) as lanes,
           row_number() over (order by c.last_served, c.workspace_id) as place
    from candidate c
    where c.ready_priority = (select max(m.ready_priority) from candidate m)
    order by c.last_served, c.workspace_id
    limit room - cardinality(claimed)
), heads as materialized (
    select head.at, p.place
    from top p
    cross join lateral (
        select q.ctid as at
        from pgdispatch.workflow_execution_queue q
        where q.workspace_id = p.workspace_id and q.priority = p.ready_priority
          and q.status = 'PENDING' and not q.outcome_unknown
          and q.run_at >= p.waiting_from and q.run_at <= start_time
        order by q.run_at, q.id
        -- Rounded up: whoever comes last in this turn may get less, and is first in the next. A turn is four items
        -- where there are more lanes than that leaves one for: a lane costs about as much as an item does.
        limit least(p.slots - p.active, floor(p.tokens), greatest(4, (room - cardinality(claimed) + p.lanes - 1) / p.lanes))
        for update skip locked
    ) head
    limit room - cardinality(claimed)
), taken as (
    {{ template "parts/take.sql" }}
    where q.ctid = any (array(select h.at from heads h)) -- they are locked, so that is where they stay
    returning q.id, q.workspace_id
)
select claimed || array_agg(t.id), array_agg(t.workspace_id), (select count(*) from candidate),
       (select array_agg({{ template "parts/lane_now.sql" "p" }} order by p.place)
        from top p
        -- Not those whose turn did not come.
        where (select count(*) from heads) < room - cardinality(claimed) or p.place <= (select max(h.place) from heads h))
into claimed, given_to, candidates, picked
from taken t;
