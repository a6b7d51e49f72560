{{- /* The IDs of the items that a claim skips. */ -}}
array(select p.item_id from pgdispatch.parked_items p where p.try_at > at_time)
