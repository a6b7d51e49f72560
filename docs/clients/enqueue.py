# python3 docs/clients/enqueue.py "$WORKSPACE" "$DEFINITION" 42, with psycopg 3.
import os
import sys

import psycopg
from psycopg.types.json import Jsonb


def place_order(conn, workspace, definition, order):
    """Stores an order and enqueues its workflow: both happen, or neither. Said again, it makes nothing twice."""
    key = f"order-{order}"
    with conn.transaction():
        row = conn.execute(
            """
            insert into pgdispatch.workflow_execution_queue
                (workspace_id, workflow_definition_id, params, idempotency_key, traceparent)
            values (%s, %s, %s, %s, %s)
            on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
            returning execution_id
            """,
            (workspace, definition, Jsonb({"orderId": order}), key, os.environ.get("TRACEPARENT")),
        ).fetchone()
        if row is None:  # enqueued before
            row = conn.execute(
                "select execution_id from pgdispatch.workflow_execution_queue"
                " where workspace_id = %s and idempotency_key = %s",
                (workspace, key),
            ).fetchone()
        conn.execute("insert into orders (id, execution_id) values (%s, %s) on conflict do nothing", (order, row[0]))
    return f"execution-{row[0]}"


with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
    try:
        print(place_order(conn, sys.argv[1], sys.argv[2], int(sys.argv[3])))
    except psycopg.DatabaseError as error:
        if not (error.sqlstate or "").startswith("PGD"):
            raise
        # The row is wrong, and would be refused again.
        sys.exit(f"{error.sqlstate}: {error.diag.message_primary} ({error.diag.message_hint})")
