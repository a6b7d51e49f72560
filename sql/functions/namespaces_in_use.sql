-- The distinct namespaces that definitions name; includes '' if some name none. One index step per namespace.
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
        select '' where exists (select from pgdispatch.workflow_definitions d where d.namespace is null))
$$;
