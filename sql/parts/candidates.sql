{{- /* The lanes that a turn may choose from: those that the claim has touched, and of each level those that were served least recently.
       What is given is how many there are at the most. */ -}}
select t.* from unnest(touched) t
where t.active < t.slots and not t.paused and t.ready_priority is not null and t.tokens >= 1
  and t.workspace_id <> all (barren)
union all
(select l.*
 from unnest(all_levels, served_floors) as level (priority, served_from)
 cross join lateral (
     select {{ template "parts/lane_columns.sql" }}
     from pgdispatch.lanes l
     where l.active < l.slots and not l.paused and l.ready_priority = level.priority
       and l.last_served >= level.served_from
       and l.workspace_id <> all (array(select t.workspace_id from unnest(touched) t))
       and l.workspace_id <> all (barren)
     order by l.last_served, l.workspace_id
     limit {{ . }}
 ) l
 limit {{ . }})
