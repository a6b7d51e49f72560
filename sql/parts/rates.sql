{{- /* What the rates of the limit l allow at at_time: see functions/claim_keys.sql. */ -}}
left join lateral (
            select min(w.most - w.started) as starts, coalesce(max(w.again) filter (where w.started >= w.most), min(w.again)) as again
            from (
                select p.most, coalesce(sum(s.items), 0)::integer as started,
                       extract(epoch from coalesce(min(s.until) + p.per - at_time, p.per))::double precision as again
                from unnest(l.max_starts, l.per) as p (most, per)
                left join pgdispatch.limit_starts s on s.limit_id = l.id and s.per = p.per and s.until > at_time - p.per
                group by p.most, p.per
            ) w
        ) r on true
