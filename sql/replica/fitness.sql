-- Whether a replica may work with this database.

{{- /* The tables whose rows this session may not see, its role, whether triggers fire, and whether this database is a
       copy, with the name of the one that it was copied from and since when that was bound. */ -}}
{{ define "fitness" -}}
select pgdispatch.hidden_tables() as hidden, current_user::text as role,
       current_setting('session_replication_role') <> 'replica' as triggers_fire,
       coalesce(i.database_oid <> d.oid or i.system_identifier <> pgdispatch.system_identifier(), false) as copied,
       coalesce(i.database_name, '') as bound_to, i.bound_at
from pg_database d
left join pgdispatch.installation i on true
where d.datname = current_database()
{{ end }}

-- name: bind_installation
-- writes installation
-- Binds the database to this installation, unless it is bound already.
insert into pgdispatch.installation (system_identifier, database_oid, database_name)
select pgdispatch.system_identifier(), d.oid, d.datname
from pg_database d
where d.datname = current_database() and not exists (select from pgdispatch.installation)
on conflict do nothing

-- name: fitness
-- reads
-- Whether a replica with this session may work with this database.
{{ template "fitness" }}

-- function: system_identifier
-- The cluster's identifier, which its physical standbys share. Null where the server does not tell.
create or replace function pgdispatch.system_identifier() returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select c.system_identifier from pg_control_system() c);
exception
    when others then return null;
end;
$$;

-- function: hidden_tables
-- The tables of which row level security may hide rows from the caller: it is in force, and for something that the caller
-- has the privilege to do, no policy without a condition applies, or a restrictive one with a condition does.
create or replace function pgdispatch.hidden_tables() returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select c.relname::text
        from pg_class c
        cross join (values ('r', 'select'), ('a', 'insert'), ('w', 'update'), ('d', 'delete')) as o (command, privilege)
        cross join lateral (
            select coalesce(bool_or(u.unconditional) filter (where p.polpermissive), false) as allows,
                   coalesce(bool_or(not u.unconditional) filter (where not p.polpermissive), false) as restricts
            from pg_policy p
            cross join lateral (
                select pg_get_expr(p.polqual, p.polrelid) as sees, coalesce(pg_get_expr(p.polwithcheck, p.polrelid),
                       pg_get_expr(p.polqual, p.polrelid)) as writes
            ) e
            cross join lateral (
                select (o.command = 'a' or e.sees = 'true') and (o.command in ('r', 'd') or e.writes = 'true') as unconditional
            ) u
            where p.polrelid = c.oid and p.polcmd::text in ('*', o.command)
              and (0 = any (p.polroles) or exists (select from unnest(p.polroles) r (role)
                                                   where case when r.role <> 0 then pg_has_role(r.role, 'usage') end))
        ) policy
        where c.relnamespace = to_regnamespace('pgdispatch') and c.relkind in ('r', 'p') and c.relrowsecurity
          and row_security_active(c.oid)
          and case o.command when 'd' then has_table_privilege(c.oid, o.privilege) else has_any_column_privilege(c.oid, o.privilege) end
          and (not policy.allows or policy.restricts)
        group by c.relname
        order by c.relname collate "C")
$$;
