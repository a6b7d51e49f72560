-- What `pgdispatch doctor` reads.

-- name: doctor_server
-- reads
-- The server, the database and this session's role. Settings are in their own units: timeouts in milliseconds.
select current_setting('server_version_num')::integer as version,
       current_setting('server_version') as version_text,
       (select pg_encoding_to_char(d.encoding)::text from pg_database d where d.datname = current_database()) as encoding,
       current_user::text as role,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all,
       clock_timestamp() as now,
       pg_notification_queue_usage() as notify_usage,
       (select count(*) from pg_stat_activity a where a.backend_type = 'client backend') as connections,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
           - coalesce(nullif(current_setting('reserved_connections', true), '')::integer, 0) as connections_allowed,
       (select nullif(r.rolconnlimit, -1) from pg_roles r where r.rolname = session_user and not r.rolsuper) as role_allowed,
       (select count(*) from pg_stat_activity a where a.usename = session_user) as role_connections,
       (select nullif(d.datconnlimit, -1) from pg_database d, pg_roles r
        where d.datname = current_database() and r.rolname = session_user and not r.rolsuper) as database_allowed,
       (select count(*) from pg_stat_activity a where a.datname = current_database() and a.backend_type = 'client backend')
           as database_connections,
       (select jsonb_object_agg(s.name, s.setting) from pg_settings s
        where s.name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts', 'statement_timeout', 'lock_timeout',
                         'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout',
                         'default_transaction_read_only', 'session_replication_role')) as settings

-- name: doctor_role
-- reads
-- This session's role: whether it has more privileges than a replica needs, and which of those granted to the
-- dispatchers' group it lacks. `pgdispatch migrate up` sets the grants of the groups.
with dispatcher (oid) as (
    select r.oid from pg_roles r where r.rolname = 'pgdispatch_dispatcher'
), granted (thing, privilege, held) as (
    select 'schema ' || n.nspname, a.privilege_type, has_schema_privilege(n.oid, a.privilege_type)
    from pg_namespace n cross join aclexplode(n.nspacl) a join dispatcher d on d.oid = a.grantee
    where n.nspname = 'pgdispatch'
    union all
    select c.relname::text, a.privilege_type,
           case c.relkind when 'S' then has_sequence_privilege(c.oid, a.privilege_type) else has_table_privilege(c.oid, a.privilege_type) end
    from pg_class c cross join aclexplode(c.relacl) a join dispatcher d on d.oid = a.grantee
    where c.relnamespace = to_regnamespace('pgdispatch')
    union all
    select c.relname || '.' || t.attname, a.privilege_type, has_column_privilege(c.oid, t.attnum, a.privilege_type)
    from pg_class c join pg_attribute t on t.attrelid = c.oid cross join aclexplode(t.attacl) a join dispatcher d on d.oid = a.grantee
    where c.relnamespace = to_regnamespace('pgdispatch')
    union all
    select p.proname || '()', a.privilege_type, has_function_privilege(p.oid, a.privilege_type)
    from pg_proc p cross join aclexplode(p.proacl) a join dispatcher d on d.oid = a.grantee
    where p.pronamespace = to_regnamespace('pgdispatch')
)
select current_user::text as name, r.rolsuper as superuser,
       pg_has_role((select n.nspowner from pg_namespace n where n.nspname = 'pgdispatch'), 'usage') as owner,
       coalesce(pg_has_role(to_regrole('pgdispatch_operator'), 'usage'), false) as operator,
       (select count(*) = 5 from pg_roles g
        where g.rolname in ('pgdispatch_owner', 'pgdispatch_dispatcher', 'pgdispatch_enqueuer', 'pgdispatch_operator',
                            'pgdispatch_reader')) as groups_exist,
       array(select lower(g.privilege) || ' on ' || g.thing from granted g where not g.held order by 1) as lacks
from pg_roles r
where r.rolname = current_user

-- name: doctor_fitness
-- reads
-- Whether a replica with this session may work with this database.
{{ template "fitness" }}

-- name: doctor_session
-- reads
-- This session: how long the server keeps it if its client takes no data, in milliseconds, and whether it uses TCP.
select s.setting::integer as tcp_user_timeout, inet_server_addr() is not null as over_tcp
from pg_settings s
where s.name = 'tcp_user_timeout'

-- name: doctor_listen
-- reads
listen pgdispatch_doctor

-- name: doctor_catalogue
-- reads
-- The schema's tables, their storage settings, columns, constraints, indexes and triggers, its sequences and functions, as
-- sql/schema/catalogue.golden has them, and what keeps one from working. Without not-null constraints, which only newer
-- servers list. Definitions are written as settings say; those that it sets last until the end of the transaction.
with setting as materialized (
    select count(set_config(n.name, n.value, true)) as all_set
    from (values ('search_path', 'pg_catalog, pg_temp'), ('quote_all_identifiers', 'off'), ('standard_conforming_strings', 'on'),
                 ('IntervalStyle', 'postgres'), ('DateStyle', 'ISO, MDY'), ('TimeZone', 'UTC'), ('extra_float_digits', '1')) as n (name, value)
), relation as materialized (
    select c.oid, c.relname, c.relkind, coalesce(c.reloptions, '{}') as options, case c.relpersistence when 'u' then 'unlogged' end as persistence
    from setting s cross join pg_class c
    where s.all_set > 0 and c.relnamespace = to_regnamespace('pgdispatch') and c.relkind in ('r', 'v', 'S') and c.relname <> 'schema_migrations'
), object (kind, name, definition, problem) as (
    select 'table', r.relname::text, coalesce(r.persistence, ''), case when 'autovacuum_enabled=false' = any (r.options)
                                          or 'autovacuum_enabled=off' = any (r.options) then 'without autovacuum' else '' end
    from relation r where r.relkind = 'r'
    union all
    select 'sequence', r.relname, concat_ws(' ', format('%s to %s by %s, cache %s', s.seqmin, s.seqmax, s.seqincrement, s.seqcache),
                                            case when s.seqcycle then 'cycle' end), coalesce(r.persistence, '')
    from relation r join pg_sequence s on s.seqrelid = r.oid
    union all
    select 'setting', r.relname || '.' || split_part(o, '=', 1), split_part(o, '=', 2), ''
    from relation r cross join unnest(r.options) o where r.relkind = 'r'
    union all
    select 'column', r.relname || '.' || a.attname,
           concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
                     case a.attgenerated when 's' then 'generated' end, pg_get_expr(d.adbin, d.adrelid)), ''
    from relation r
    join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
    where r.relkind <> 'S'
    union all
    select 'constraint', r.relname || '.' || quote_ident(k.conname), pg_get_constraintdef(k.oid),
           case when not k.convalidated then 'not valid' else '' end
    from relation r join pg_constraint k on k.conrelid = r.oid and k.contype <> 'n'
    union all
    select 'index', i.relname, pg_get_indexdef(x.indexrelid), case when not x.indisvalid then 'invalid' else '' end
    from relation r join pg_index x on x.indrelid = r.oid join pg_class i on i.oid = x.indexrelid
    union all
    select 'trigger', r.relname || '.' || t.tgname,
           concat_ws(' ', pg_get_triggerdef(t.oid), case t.tgenabled when 'A' then 'ALWAYS' end),
           case t.tgenabled when 'D' then 'disabled' when 'R' then 'enabled for replication only' else '' end
    from relation r join pg_trigger t on t.tgrelid = r.oid and not t.tgisinternal
    union all
    select 'function', format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)),
           concat_ws(' ', pg_get_function_result(p.oid), p.provolatile::text, p.prosecdef::text, array_to_string(p.proconfig, ' '), md5(p.prosrc)), ''
    from setting s cross join pg_proc p where s.all_set > 0 and p.pronamespace = to_regnamespace('pgdispatch')
)
select o.kind, o.name, regexp_replace(o.definition, '[[:space:]]+', ' ', 'g') as definition, o.problem
from object o
order by o.kind collate "C", o.name collate "C"

-- name: doctor_sequences
-- reads
-- The sequences that are behind what their tables have, with the highest value there: a logical copy has the rows only.
-- What they draw next is taken already. The lease tokens of all items are read only if those of some say so.
with drawn (name, last) as (
    select n.name, coalesce(pg_sequence_last_value('pgdispatch.' || n.name), 0)
    from (values ('workflow_execution_queue_id_seq'), ('limits_id_seq'), ('admin_log_id_seq'), ('signals_id_seq'), ('lease_tokens')) n (name)
)
select d.name, h.highest
from drawn d
cross join lateral (select case d.name
    when 'workflow_execution_queue_id_seq' then (select max(q.id) from pgdispatch.workflow_execution_queue q)
    when 'limits_id_seq' then (select max(l.id) from pgdispatch.limits l)
    when 'admin_log_id_seq' then (select max(a.id) from pgdispatch.admin_log a)
    when 'signals_id_seq' then (select max(s.id) from pgdispatch.signals s)
    when 'lease_tokens' then case
        when d.last = 0 or (select t.leased_from > d.last + 1 from pgdispatch.mark_trim t)
             or (select max(q.lease_token) > d.last from pgdispatch.workflow_execution_queue q
                 where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0)
        then (select max(q.lease_token) from pgdispatch.workflow_execution_queue q) end
    end as highest) h
where h.highest > d.last
order by d.name

-- name: doctor_replicas
-- reads
-- Every known replica: how long ago it expired (negative: it lives), how many items it holds and executions it watches,
-- and its namespace ('': it is of an earlier version).
select r.id, clock_timestamp() - r.expires_at as dead_for,
       coalesce(l.leased, 0) as leased,
       (select count(*) from pgdispatch.workflow_executions e where e.finished_at is null and e.status = 'RUNNING' and e.watcher = r.id) as watching,
       coalesce(r.namespace, '') as namespace
from pgdispatch.replicas r
left join (
    select q.claimed_by, count(*) as leased
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t) and q.status = 'CLAIMED'
    group by q.claimed_by
) l on l.claimed_by = r.id
order by r.started_at

-- name: doctor_definitions
-- reads
-- The task queues, namespaces ('': the replicas') and kinds of all definitions, with the highest max_attempts, and
-- how many have no version.
select coalesce(d.namespace, '') as namespace, d.task_queue as name, d.kind, count(*) as definitions, max(d.max_attempts) as max_attempts,
       count(*) filter (where d.input = 'envelope' and not exists (select from pgdispatch.workflow_definition_versions v
                                          where v.workflow_definition_id = d.id)) as without_version
from pgdispatch.workflow_definitions d
group by d.namespace, d.task_queue, d.kind
order by count(*) desc, d.task_queue, d.namespace, d.kind

-- name: doctor_horizon
-- reads
-- $1 the age from which to report, $2 the number of transactions from which to report what has no age. What keeps vacuum
-- from removing dead rows, and for how long (null: unknown), longest first. A transaction that has only written holds it by
-- its ID, without a snapshot.
select h.kind, h.name, h.detail, h.age
from (
    select 'session' as kind, a.pid::text as name, concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state) as detail,
           clock_timestamp() - a.xact_start as age
    from pg_stat_activity a
    where coalesce(a.backend_xmin, a.backend_xid) is not null and a.pid <> pg_backend_pid()
      and a.backend_type not in ('autovacuum worker', 'walsender', 'parallel worker')
      and a.xact_start < clock_timestamp() - $1::interval
    union all
    select 'prepared transaction', p.gid, concat_ws(', ', p.owner, 'database ' || p.database), clock_timestamp() - p.prepared
    from pg_prepared_xacts p
    where p.prepared < clock_timestamp() - $1::interval
    union all
    select 'replication slot', s.slot_name::text,
           s.slot_type || case when s.active then format(', %s transactions behind', age(coalesce(s.xmin, s.catalog_xmin)))
                               else ', not in use' end, null
    from pg_replication_slots s
    where coalesce(s.xmin, s.catalog_xmin) is not null
      and (not s.active or age(coalesce(s.xmin, s.catalog_xmin)) > $2::bigint)
    union all
    select 'standby', coalesce(nullif(r.application_name, ''), r.pid::text),
           format('hot_standby_feedback, %s transactions behind', age(r.backend_xmin)), null
    from pg_stat_replication r
    where age(r.backend_xmin) > $2::bigint
) h
order by h.age desc nulls last, h.kind, h.name
limit 20

-- name: doctor_limits
-- reads
-- $1 at most this many limits, $2 at most this many waiting items of a key are looked at. The first limits, with how many
-- items their workspace may run in a burst (null: a limit over all workspaces), and whether one of the items looked at
-- waits with their key.
select l.id, pgdispatch.burst_limit(coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows),
           coalesce(w.max_burst_workflows, t.max_burst_workflows)) as workspace_max,
       exists (select from (select q.workspace_id from pgdispatch.workflow_execution_queue q
                            where q.limit_key = l.key and q.stage = 'WAITS' and q.created_at >= '-infinity' limit $2::bigint) n
               where l.workspace_id is null or n.workspace_id = l.workspace_id) as waits
from pgdispatch.limits l
left join pgdispatch.workspaces w on w.id = l.workspace_id
left join pgdispatch.workspace_tiers t on t.plan = w.plan
order by l.id limit $1::bigint

-- name: doctor_limit_keys
-- reads
-- $1 at most this many items that hold slots and that wait are looked at, $2 at most this many rows, $3 only of these
-- workspaces (null: all). The limit keys of these items that have no limit, with the item's workspace.
select n.limit_key as key, n.workspace_id::text
from (
    (select q.limit_key, q.workspace_id from pgdispatch.workflow_execution_queue q
     where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0 order by q.lease_token desc limit $1::bigint)
    union
    select e.limit_key, e.workspace_id from ({{ template "earliest" "$1::bigint" }}) e
) n
where n.limit_key is not null and ($3::text[] is null or n.workspace_id = any ($3::text[]::uuid[]))
  and not exists (select from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id = n.workspace_id)
  and not exists (select from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id is null)
order by n.limit_key, n.workspace_id limit $2::bigint

-- name: doctor_overrides
-- reads
-- Harmful settings that were stored for roles or for this database.
select coalesce(r.rolname::text, 'every role') as role, coalesce('database ' || d.datname, 'every database') as scope, c.setting
from pg_db_role_setting s
cross join unnest(s.setconfig) as c (setting)
left join pg_roles r on r.oid = s.setrole
left join pg_database d on d.oid = s.setdatabase
where (s.setdatabase = 0 or d.datname = current_database())
  and c.setting in ('synchronous_commit=off', 'session_replication_role=replica')
order by role, scope, c.setting

-- function: namespaces_in_use
-- The distinct namespaces that definitions name; includes '' if some name none. One index step per namespace. With those
-- of activities, as lanes: see lane().
create or replace function pgdispatch.namespaces_in_use() returns text[]
language sql stable
as $$
    with recursive named as (
        (select d.namespace from pgdispatch.workflow_definitions d where d.namespace is not null order by d.namespace limit 1)
        union all
        select (select d.namespace from pgdispatch.workflow_definitions d where d.namespace > n.namespace order by d.namespace limit 1)
        from named n
        where n.namespace is not null
    )
    select array(
        select n.namespace from named n where n.namespace is not null
        union all
        select '' where exists (select from pgdispatch.workflow_definitions d where d.namespace is null)
        union all
        select distinct pgdispatch.lane(coalesce(d.namespace, ''), d.kind) from pgdispatch.workflow_definitions d where d.kind = 'activity')
$$;
