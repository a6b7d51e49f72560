-- The demonstration's three workspaces, one on each plan, with their workflow
-- definitions. All of them run the workflow type demo.RunGraph, which works through the graph of the
-- definition's newest version. The IDs are fixed so that enqueue.sql can name them.

insert into pgdispatch.workspaces (id, name, plan)
values
    ('aaaaaaaa-0000-4000-8000-000000000000', 'Acorn Bakery', 'FREE'),
    ('bbbbbbbb-0000-4000-8000-000000000000', 'Birch & Sons', 'PRO'),
    ('cccccccc-0000-4000-8000-000000000000', 'Cedar Health', 'ENTERPRISE');

insert into pgdispatch.workflow_definitions (id, workspace_id, name, workflow_type, task_queue, execution_timeout)
values
    ('aaaaaaaa-0000-4000-8000-000000000001', 'aaaaaaaa-0000-4000-8000-000000000000', 'Wholesale order', 'demo.RunGraph', 'demo', interval '10 minutes'),
    ('bbbbbbbb-0000-4000-8000-000000000001', 'bbbbbbbb-0000-4000-8000-000000000000', 'Invoice approval', 'demo.RunGraph', 'demo', interval '10 minutes'),
    ('bbbbbbbb-0000-4000-8000-000000000002', 'bbbbbbbb-0000-4000-8000-000000000000', 'Order fulfilment', 'demo.RunGraph', 'demo', interval '10 minutes'),
    ('cccccccc-0000-4000-8000-000000000001', 'cccccccc-0000-4000-8000-000000000000', 'Patient intake', 'demo.RunGraph', 'demo', interval '10 minutes'),
    ('cccccccc-0000-4000-8000-000000000002', 'cccccccc-0000-4000-8000-000000000000', 'Lab results', 'demo.RunGraph', 'demo', interval '10 minutes'),
    ('cccccccc-0000-4000-8000-000000000003', 'cccccccc-0000-4000-8000-000000000000', 'Insurance claim', 'demo.RunGraph', 'demo', null);

insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
values
    ('aaaaaaaa-0000-4000-8000-000000000001', 1, '{
        "nodes": [{"id": "receive_order"}, {"id": "bake"}, {"id": "pack"}, {"id": "deliver"}],
        "edges": [
            {"from": "receive_order", "to": "bake"},
            {"from": "bake", "to": "pack"},
            {"from": "pack", "to": "deliver"}
        ]}'),
    -- The newest version is the one that is dispatched: this one, with its branch and its join.
    ('aaaaaaaa-0000-4000-8000-000000000001', 2, '{
        "nodes": [
            {"id": "receive_order"}, {"id": "check_stock"}, {"id": "bake"}, {"id": "print_labels"},
            {"id": "pack"}, {"id": "deliver"}
        ],
        "edges": [
            {"from": "receive_order", "to": "check_stock"},
            {"from": "check_stock", "to": "bake"},
            {"from": "receive_order", "to": "print_labels"},
            {"from": "bake", "to": "pack"},
            {"from": "print_labels", "to": "pack"},
            {"from": "pack", "to": "deliver"}
        ]}'),
    ('bbbbbbbb-0000-4000-8000-000000000001', 1, '{
        "nodes": [
            {"id": "scan"}, {"id": "read_lines"}, {"id": "match_purchase_order"}, {"id": "check_supplier"},
            {"id": "approve"}, {"id": "book"}, {"id": "schedule_payment"}
        ],
        "edges": [
            {"from": "scan", "to": "read_lines"},
            {"from": "read_lines", "to": "match_purchase_order"},
            {"from": "scan", "to": "check_supplier"},
            {"from": "match_purchase_order", "to": "approve"},
            {"from": "check_supplier", "to": "approve"},
            {"from": "approve", "to": "book"},
            {"from": "approve", "to": "schedule_payment"}
        ]}'),
    ('bbbbbbbb-0000-4000-8000-000000000002', 1, '{
        "nodes": [
            {"id": "reserve_stock"}, {"id": "charge_card"}, {"id": "pick"}, {"id": "wrap"},
            {"id": "hand_to_carrier"}, {"id": "send_receipt"}
        ],
        "edges": [
            {"from": "reserve_stock", "to": "pick"},
            {"from": "charge_card", "to": "pick"},
            {"from": "charge_card", "to": "send_receipt"},
            {"from": "pick", "to": "wrap"},
            {"from": "wrap", "to": "hand_to_carrier"}
        ]}'),
    ('cccccccc-0000-4000-8000-000000000001', 1, '{
        "nodes": [
            {"id": "verify_identity"}, {"id": "check_insurance"}, {"id": "collect_history"}, {"id": "collect_consent"},
            {"id": "assess_risk"}, {"id": "assign_physician"}, {"id": "book_appointment"}, {"id": "send_confirmation"}
        ],
        "edges": [
            {"from": "verify_identity", "to": "check_insurance"},
            {"from": "verify_identity", "to": "collect_history"},
            {"from": "verify_identity", "to": "collect_consent"},
            {"from": "collect_history", "to": "assess_risk"},
            {"from": "collect_consent", "to": "assess_risk"},
            {"from": "assess_risk", "to": "assign_physician"},
            {"from": "check_insurance", "to": "book_appointment"},
            {"from": "assign_physician", "to": "book_appointment"},
            {"from": "book_appointment", "to": "send_confirmation"}
        ]}'),
    ('cccccccc-0000-4000-8000-000000000002', 1, '{
        "nodes": [
            {"id": "receive_sample"}, {"id": "analyse"}, {"id": "compare_with_norm"}, {"id": "review"},
            {"id": "notify_physician"}, {"id": "publish_to_portal"}
        ],
        "edges": [
            {"from": "receive_sample", "to": "analyse"},
            {"from": "analyse", "to": "compare_with_norm"},
            {"from": "compare_with_norm", "to": "review"},
            {"from": "review", "to": "notify_physician"},
            {"from": "review", "to": "publish_to_portal"}
        ]}'),
    ('cccccccc-0000-4000-8000-000000000003', 1, '{
        "nodes": [
            {"id": "register_claim"}, {"id": "code_treatment"}, {"id": "check_policy"}, {"id": "price"},
            {"id": "submit_to_insurer"}, {"id": "file"}
        ],
        "edges": [
            {"from": "register_claim", "to": "code_treatment"},
            {"from": "register_claim", "to": "check_policy"},
            {"from": "code_treatment", "to": "price"},
            {"from": "check_policy", "to": "price"},
            {"from": "price", "to": "submit_to_insurer"},
            {"from": "submit_to_insurer", "to": "file"}
        ]}');
