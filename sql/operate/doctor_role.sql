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
