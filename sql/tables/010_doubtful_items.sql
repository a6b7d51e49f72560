-- When an epoch begins, claims of the items up to items_to may have been lost, after their starts were sent.
alter table pgdispatch.epoch add column items_to bigint not null default 0; -- of the present epoch: no item

---- create above / drop below ----

alter table pgdispatch.epoch drop column items_to;
