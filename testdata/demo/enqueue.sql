-- 202 items in plain SQL, inserted the way applications insert: one by one inside their transactions,
-- many with one statement, and with COPY. An item with the parameter fail_at fails at that node, on
-- purpose; demo.RunGraph knows the parameter, pgdispatch does not.

-- Acorn Bakery, 12 items: each inside the transaction that does the application's own work.

begin;
-- insert into orders ... would stand here: the item is committed with it, or not at all.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Corner Cafe", "loaves": 40}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Hotel Linden", "loaves": 120}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "School Kitchen", "loaves": 260}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Harbour Deli", "loaves": 35}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Station Kiosk", "loaves": 80, "fail_at": "bake"}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Town Hall", "loaves": 60}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Theatre Bar", "loaves": 25}');
commit;
select pg_sleep(0.15);

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Bike Shop Cafe", "loaves": 30}');
commit;
select pg_sleep(0.15);

-- Four more with one statement. The wedding goes first, and the tasting waits until it is due.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, priority, run_at)
values
    ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Wedding at the lake", "loaves": 400}', 10, now()),
    ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Farmers market", "loaves": 150}', 0, now()),
    ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Night shift canteen", "loaves": 90}', 0, now()),
    ('aaaaaaaa-0000-4000-8000-000000000000', 'aaaaaaaa-0000-4000-8000-000000000001', '{"customer": "Tasting evening", "loaves": 12}', 0, now() + interval '5 seconds');

-- Birch & Sons, 50 items: a batch of invoices with insert ... select, then orders one by one.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
select 'bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000001',
       jsonb_build_object('invoice', 'INV-' || 4000 + n, 'amount_cents', 1999 * n)
       || case when n = 17 then jsonb_build_object('fail_at', 'approve') else '{}' end
from generate_series(1, 40) as n;

begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7101", "items": 1}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7102", "items": 4}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7103", "items": 7}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7104", "items": 3}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7105", "items": 6}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7106", "items": 2}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7107", "items": 5, "fail_at": "charge_card"}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7108", "items": 1}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7109", "items": 4}');
commit;
begin;
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
values ('bbbbbbbb-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000002', '{"order": "SO-7110", "items": 7}');
commit;

-- Cedar Health, 140 items: a night's import of patients with COPY, ...
copy pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params) from stdin;
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20001", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20038", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20075", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20112", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20149", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20186", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20223", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20260", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20297", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20334", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20371", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20408", "reason": "vaccination", "fail_at": "check_insurance"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20445", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20482", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20519", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20556", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20593", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20630", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20667", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20704", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20741", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20778", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20815", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20852", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20889", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20926", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-20963", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21000", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21037", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21074", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21111", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21148", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21185", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21222", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21259", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21296", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21333", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21370", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21407", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21444", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21481", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21518", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21555", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21592", "reason": "follow-up", "fail_at": "check_insurance"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21629", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21666", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21703", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21740", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21777", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21814", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21851", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21888", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21925", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21962", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-21999", "reason": "first visit"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-22036", "reason": "check-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-22073", "reason": "vaccination"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-22110", "reason": "referral"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-22147", "reason": "follow-up"}
cccccccc-0000-4000-8000-000000000000	cccccccc-0000-4000-8000-000000000001	{"patient": "P-22184", "reason": "first visit"}
\.

-- ... lab results with one statement, the urgent ones first, ...
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, priority)
select 'cccccccc-0000-4000-8000-000000000000', 'cccccccc-0000-4000-8000-000000000002',
       jsonb_build_object('sample', 'LAB-' || 9000 + n, 'urgent', n % 10 = 0)
       || case when n = 25 then jsonb_build_object('fail_at', 'analyse') else '{}' end,
       case when n % 10 = 0 then 5 else 0 end
from generate_series(1, 60) as n;

-- ... and claims with an idempotency key: the second statement enqueues nothing again.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, idempotency_key)
select 'cccccccc-0000-4000-8000-000000000000', 'cccccccc-0000-4000-8000-000000000003', jsonb_build_object('claim', 'CL-' || 300 + n), 'claim-' || 300 + n
from generate_series(1, 20) as n;

insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, idempotency_key)
values ('cccccccc-0000-4000-8000-000000000000', 'cccccccc-0000-4000-8000-000000000003', '{"claim": "CL-301"}', 'claim-301')
on conflict do nothing;
