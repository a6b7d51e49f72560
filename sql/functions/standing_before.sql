-- For pgdispatch.claim: the last row of claim_items as replicas of the version before read it.
create or replace function pgdispatch.standing_before(standing json, held integer[], held_to bigint[]) returns json
language sql immutable
as $$
    select case when standing is not null then (
        select json_build_object('at_time', standing -> 'at_time', 'took', standing -> 'took', 'epoch', standing -> 'epoch',
            'paused', standing -> 'paused', 'room', standing -> 'room', 'last_token', standing -> 'last_token',
            'tokens', standing -> 'tokens', 'grants', standing -> 'grants',
            'limits', json_agg(f.facts -> 0), 'numbers', json_agg(f.facts -> 2),
            'pauses', json_agg((f.facts ->> 1) is not distinct from '1'),
            'counted', json_agg(standing -> 'counts' -> f.at -> 0), 'lowest', json_agg(standing -> 'counts' -> f.at -> 1),
            'holders', json_agg(coalesce((standing -> 'counts' -> f.at ->> 0)::bigint,
                held[f.at + 1] + (standing ->> 'last_token')::bigint - held_to[f.at + 1])),
            'rates', json_agg(standing -> 'rates' -> f.at), 'allows', json_agg(standing -> 'allows' -> f.at),
            'next_place', standing -> 'next_place', 'next_due', standing -> 'next_due', 'next_id', standing -> 'next_id')
        from (select e.facts, (e.place - 1)::integer as at from json_array_elements(standing -> 'facts') with ordinality as e (facts, place)
              order by e.place) f
    ) end
$$;
