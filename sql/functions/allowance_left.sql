-- For claim: how many items of limited namespaces may be given after those that were, and which namespaces are closed by now.
create or replace function pgdispatch.allowance_left(given bigint[], own_namespace text, namespaces text[], allowed integer[],
                                          out remaining integer[], out closed text[])
language plpgsql stable
as $$
begin
    with left_over as (
        select n.namespace, n.place, greatest(n.allowed - (
                   select count(*)
                   from pgdispatch.workflow_execution_queue q
                   left join pgdispatch.workflow_executions e on e.id = q.execution_id and q.outcome_unknown
                   left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
                   where q.id = any (given) and coalesce(e.namespace, d.namespace, own_namespace) = n.namespace), 0)::integer as items
        from unnest(namespaces, allowed) with ordinality as n (namespace, allowed, place)
    )
    select array_agg(l.items order by l.place), coalesce(array_agg(l.namespace) filter (where l.items = 0), '{}')
    into remaining, closed
    from left_over l;
end;
$$;
