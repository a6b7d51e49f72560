-- $1 execution, $2 name, $3 payload.
select pgdispatch.signal($1::text::uuid, $2, $3::jsonb)
