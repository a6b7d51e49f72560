-- Settles the claimed items with the product's own statement, which is inserted here: a script does not know what was
-- claimed.
create function public.settle() returns bigint
language plpgsql
as $function$
declare
    ids bigint[];
    tokens bigint[];
    runs text[];
    settled bigint;
begin
    select array_agg(q.id order by q.id), array_agg(q.lease_token order by q.id), array_agg(gen_random_uuid()::text)
    into ids, tokens, runs
    from pgdispatch.workflow_execution_queue q
    where q.status = 'CLAIMED' and q.lease_token > 0;
    %s;
    return settled;
end;
$function$
