-- Triggers that refuse the graph of a workflow definition.

-- function: refuse_graph
-- Names the first node or edge that is wrong.
create or replace function pgdispatch.refuse_graph() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong text;
begin
    with node (value, id, place) as (
        select n.value, n.value -> 'id', n.place - 1
        from jsonb_path_query(new.graph, 'strict $.nodes[*]', silent => true) with ordinality n (value, place)
    ), fault (step, place, field, value, must) as (
        select 1, 0, 'graph', new.graph, 'be an object' where jsonb_typeof(new.graph) <> 'object'
        union all
        select 2, 0, f.field, new.graph -> f.field, 'be an array'
        from (values ('nodes', ''), ('edges', 'array')) f (field, missing)
        where coalesce(jsonb_typeof(new.graph -> f.field), f.missing) <> 'array'
        union all
        select 3, n.place, format('nodes[%s]', n.place), n.value, 'be an object' from node n where jsonb_typeof(n.value) <> 'object'
        union all
        select 3, n.place, format('nodes[%s].id', n.place), n.id,
               case when jsonb_typeof(n.id) is distinct from 'string' then 'be a string'
                    when n.id = '""' then 'not be empty' else format('differ from nodes[%s].id', n.first) end
        from (select n.*, min(n.place) over (partition by n.id) as first from node n where jsonb_typeof(n.value) = 'object') n
        where jsonb_typeof(n.id) is distinct from 'string' or n.id = '""' or n.place > n.first
        union all
        select 4, 0, 'size of all node ids', to_jsonb(octet_length(jsonb_agg(n.id)::text)), 'be 65536 bytes at most'
        from node n having octet_length(jsonb_agg(n.id)::text) > 65536
        union all
        select 5, e.place, concat_ws('.', format('edges[%s]', e.place - 1), f.field),
               case when f.field is null then e.value else e.value -> f.field end,
               case when f.field is null then 'be an object' else 'be the id of a node' end
        from jsonb_path_query(new.graph, 'strict $.edges[*]', silent => true) with ordinality e (value, place)
        cross join unnest(case when jsonb_typeof(e.value) = 'object' then '{from,to}'::text[] else array[null::text] end) f (field)
        left join node n on n.id = e.value -> f.field
        where n.id is null
    )
    select format('%s is %s: it must %s', f.field, coalesce(left(f.value::text, 80), 'missing'), f.must) into wrong
    from fault f order by f.step, f.place, f.field limit 1;
    if found then
        raise exception 'graph of workflow_definition_versions: %', wrong
            using errcode = '23514',
                  hint = 'A graph is such as {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"from": "a", "to": "b"}]}.',
                  schema = 'pgdispatch', table = tg_table_name, column = 'graph';
    end if;
    return new;
end;
$$;

-- function: refuse_graph_cycle
-- After refuse_graph: names the nodes of a cycle, none of which could be the first to run. Takes away the nodes from which
-- no edge leads on, until none is left or only those that lead to a cycle.
create or replace function pgdispatch.refuse_graph_cycle() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    ids text[];          -- of the nodes, which are their places here in the arrays below
    sources integer[];   -- of the edges, in the order of their targets
    targets integer[];
    last_edge integer[]; -- of each node, the last edge that leads to it or to an earlier node
    ahead integer[];     -- of each node, how many edges lead on to a node that was not taken away
    taken integer[];     -- the nodes that were taken away
    onward integer[];    -- of each node that was left, another one to which an edge leads
    seen integer := 0;
    node integer;
    start integer;
    cycle integer[];
    named text;
begin
    with node as (
        select n.value ->> 'id' as id, n.place from jsonb_array_elements(new.graph -> 'nodes') with ordinality n (value, place)
    ), edge as (
        select s.place as source, t.place as target from jsonb_array_elements(new.graph -> 'edges') e
        join node s on s.id = e ->> 'from' join node t on t.id = e ->> 'to'
    )
    select array(select n.id from node n order by n.place), array(select e.source from edge e order by e.target),
           array(select e.target from edge e order by e.target),
           array(select sum(count(e.target)) over (order by n.place) from node n left join edge e on e.target = n.place
                 group by n.place order by n.place),
           array(select count(e.source) from node n left join edge e on e.source = n.place group by n.place order by n.place)
    into ids, sources, targets, last_edge, ahead;
    taken := array(select n.place from unnest(ahead) with ordinality n (edges, place) where n.edges = 0);
    while seen < cardinality(taken) loop
        seen := seen + 1;
        for edge in coalesce(last_edge[taken[seen] - 1], 0) + 1 .. last_edge[taken[seen]] loop
            node := sources[edge];
            ahead[node] := ahead[node] - 1;
            if ahead[node] = 0 then
                taken := taken || node;
            end if;
        end loop;
    end loop;
    if seen = cardinality(ids) then
        return new;
    end if;
    onward := array_fill(0, array[cardinality(ids)]);
    for edge in 1 .. cardinality(sources) loop
        if ahead[sources[edge]] > 0 and ahead[targets[edge]] > 0 then
            onward[sources[edge]] := targets[edge];
            node := sources[edge];
        end if;
    end loop;
    for step in 1 .. 2 * cardinality(ids) loop
        node := onward[node];
        if step > cardinality(ids) then
            start := least(start, node); -- node is on the cycle
        end if;
    end loop;
    cycle := array[start];
    loop
        cycle := cycle || onward[cycle[cardinality(cycle)]];
        exit when cycle[cardinality(cycle)] = start;
    end loop;
    named := left((select string_agg(ids[c.node], ' -> ' order by c.place) from unnest(cycle) with ordinality c (node, place)), 200);
    raise exception 'graph of workflow_definition_versions: edges are a cycle: "%"', named
        using errcode = '23514', hint = 'Remove one of these edges: none of the nodes could be the first to run.',
              schema = 'pgdispatch', table = tg_table_name, column = 'graph';
end;
$$;
