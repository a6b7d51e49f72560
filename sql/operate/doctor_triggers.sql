-- reads
-- Triggers of pgdispatch that are missing or do not fire, and why.
select x.relation || '.' || x.name as name,
       case when t.tgname is null then 'missing' when t.tgenabled = 'D' then 'disabled' else 'fires only for replication' end as problem
from (values ('workflow_execution_queue', 'refuse_change'), ('workflow_execution_queue', 'refuse_item'),
             ('workflow_execution_queue', 'item_enqueued'), ('workflow_execution_queue', 'item_moved'),
             ('workflow_execution_queue', 'item_deleted'), ('workflow_execution_queue', 'item_gone'),
             ('workflow_executions', 'execution_said'), ('workflow_executions', 'end_early'), ('enqueue', 'enqueue_item'),
             ('workspaces', 'workspace_limits_changed'), ('workspaces', 'workspace_deleted'),
             ('workspace_tiers', 'tier_limits_changed'), ('settings', 'settings_changed'), ('limits', 'key_limits_added'),
             ('limits', 'key_limits_changed'), ('limits', 'key_limits_removed'),
             ('workspaces', 'refuse_value'), ('workspace_tiers', 'refuse_value'), ('settings', 'refuse_value'), ('limits', 'refuse_value'),
             ('workflow_definitions', 'refuse_value'), ('workflow_definition_versions', 'refuse_value')
      union all
      select c.relname, 'refuse_truncate' from pg_class c
      where c.relnamespace = to_regnamespace('pgdispatch') and c.relkind = 'r' and c.relname <> 'schema_migrations') as x (relation, name)
left join pg_trigger t on t.tgrelid = to_regclass('pgdispatch.' || x.relation) and t.tgname = x.name
where t.tgname is null or t.tgenabled not in ('O', 'A')
order by name
