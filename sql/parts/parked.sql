{{- /* The IDs of the items that a claim skips. */ -}}
array(select i.item_id from pgdispatch.parked_items i where i.try_at > at_time)
