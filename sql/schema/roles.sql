-- The roles. PUBLIC gets no privileges. `pgdispatch migrate up` runs this and grants.sql after the functions, in their
-- transaction, each time: roles belong to the cluster and not to this database, so they may exist already, be created
-- at the same moment by the migration of another database, or be created by an administrator later.
revoke all on schema pgdispatch from public;
revoke all on all tables in schema pgdispatch from public;
revoke all on all sequences in schema pgdispatch from public;
revoke all on all routines in schema pgdispatch from public;

do $$
declare
    role text;
    missing text[] := '{}';
    thing text;
begin
    foreach role in array array['pgdispatch_owner', 'pgdispatch_dispatcher', 'pgdispatch_enqueuer', 'pgdispatch_operator', 'pgdispatch_reader'] loop
        continue when exists (select from pg_roles r where r.rolname = role);
        begin
            execute format('create role %I nologin', role);
        exception
            when duplicate_object or unique_violation then null; -- another database's migration was faster
            when insufficient_privilege then missing := missing || role;
        end;
    end loop;
    if cardinality(missing) > 0 then
        raise warning 'role % may not create roles, and role % does not exist: only the owner of the schema has privileges',
                current_user, array_to_string(missing, ', ')
            using hint = format('As a role that may create roles, run `%s grant pgdispatch_owner to %I;`, then run `pgdispatch migrate up` again.',
                                (select string_agg(format('create role %I nologin;', m), ' ') from unnest(missing) m), current_user);
        return;
    end if;

    -- Functions with security definer run as the owner. That must not be the role that migrated, which may be a
    -- superuser.
    begin
        -- Since Postgres 16, the creator of a role may grant it, but is not yet a member that can use it.
        if not (pg_has_role(current_user, 'pgdispatch_owner', 'usage')
                and pg_has_role(current_user, 'pgdispatch_owner',
                    case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end)) then
            execute format('grant pgdispatch_owner to %I', current_user);
        end if;
        for thing in
            select 'schema pgdispatch' from pg_namespace n where n.nspname = 'pgdispatch' and n.nspowner <> 'pgdispatch_owner'::regrole
            union all
            select format('table %s', c.oid::regclass) -- `alter table` works for views and sequences too
            from pg_class c
            where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S') and c.relowner <> 'pgdispatch_owner'::regrole
              -- an identity's sequence goes with its table
              and not exists (select from pg_depend d
                              where d.objid = c.oid and d.objsubid = 0 and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
                                                        and d.refclassid = 'pg_class'::regclass)
            union all
            select format('routine %s', p.oid::regprocedure)
            from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace and p.proowner <> 'pgdispatch_owner'::regrole
            union all
            select format('type %s', c.reltype::regtype)
            from pg_class c where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'c' and c.relowner <> 'pgdispatch_owner'::regrole
        loop
            execute format('alter %s owner to pgdispatch_owner', thing);
        end loop;
    exception
        when insufficient_privilege then
            raise warning 'objects created by % keep their owner: %', current_user, sqlerrm
                using hint = format('As a role that may grant it, run `grant pgdispatch_owner to %I;`, then `pgdispatch migrate up` again.',
                    current_user);
    end;
end;
$$;
