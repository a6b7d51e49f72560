// node docs/clients/enqueue.js "$WORKSPACE" "$DEFINITION" 42, after npm install pg.
const { Client } = require("pg");

// Stores an order and enqueues its workflow: both happen, or neither. Said again, it makes nothing twice.
async function placeOrder(client, workspace, definition, order) {
  const key = `order-${order}`;
  await client.query("begin");
  try {
    let { rows } = await client.query(
      `insert into pgdispatch.workflow_execution_queue
           (workspace_id, workflow_definition_id, params, idempotency_key, traceparent)
       values ($1, $2, $3, $4, $5)
       on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
       returning execution_id`,
      [workspace, definition, JSON.stringify({ orderId: order }), key, process.env.TRACEPARENT],
    );
    if (rows.length === 0) { // enqueued before
      ({ rows } = await client.query(
        "select execution_id from pgdispatch.workflow_execution_queue where workspace_id = $1 and idempotency_key = $2",
        [workspace, key],
      ));
    }
    await client.query("insert into orders (id, execution_id) values ($1, $2) on conflict do nothing", [order, rows[0].execution_id]);
    await client.query("commit");
    return `execution-${rows[0].execution_id}`;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

async function main([workspace, definition, order]) {
  const client = new Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  try {
    console.log(await placeOrder(client, workspace, definition, Number(order)));
  } catch (error) {
    if (!error.code?.startsWith("PGD")) throw error;
    // The row is wrong, and would be refused again.
    console.error(`${error.code}: ${error.message} (${error.hint})`);
    process.exitCode = 1;
  } finally {
    await client.end();
  }
}

main(process.argv.slice(2));
