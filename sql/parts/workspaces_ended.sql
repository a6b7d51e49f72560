{{- /* Adds the ends of the marks in ended to what is known of their workspaces, in the order of IDs: as workspace_activity_note. */ -}}
insert into pgdispatch.workspace_activity as a (at, workspace_id, completed, failed, cancelled)
select date_bin('5 minutes', statement_timestamp(), 'epoch'), w.id, sum(coalesce(w.completed, e.completed)),
       sum(coalesce(w.failed, e.failed)), sum(e.cancelled)
from ended e cross join lateral unnest(e.workspaces, e.completed_of, e.failed_of) as w (id, completed, failed)
where e.completed_of is not null or cardinality(e.workspaces) = 1
group by w.id order by w.id
on conflict (at, workspace_id) do update
set completed = a.completed + excluded.completed, failed = a.failed + excluded.failed, cancelled = a.cancelled + excluded.cancelled
