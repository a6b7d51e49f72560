-- writes a limit and the audit log
-- $1 workspace (null: over all workspaces), $2 key, $3 whether to set max_concurrent and $4 its value (null: no limit), $5
-- whether to set the rates, $6 max_starts and $7 per (null: no limit), $8 who. Adds the limit if there is none. Returns
-- {"column": [before, after]}.
with was as materialized (
    select l.* from pgdispatch.limits l where l.key = $2::text and l.workspace_id is not distinct from $1::text::uuid for update
), changed as (
    update pgdispatch.limits l
    set max_concurrent = case when $3::boolean then $4::integer else l.max_concurrent end,
        max_starts = case when $5::boolean then $6::integer[] else l.max_starts end,
        per = case when $5::boolean then $7::interval[] else l.per end
    from was
    where l.id = was.id
    returning pgdispatch.row_change(to_jsonb(was), to_jsonb(l)) as details
), made as (
    insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per)
    select $1::text::uuid, $2::text, case when $3::boolean then $4::integer end, case when $5::boolean then $6::integer[] end,
           case when $5::boolean then $7::interval[] end
    where not exists (select from was)
    returning pgdispatch.row_change('{"max_concurrent": null, "max_starts": null, "per": null}', to_jsonb(limits)) as details
), done as (
    select details from changed union all select details from made
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $8::text, 'limits set', coalesce('workspace ' || $1::text, 'limits'), d.details || jsonb_build_object('limit_key', $2::text)
    from done d where d.details <> '{}'
)
select d.details::text from done d
