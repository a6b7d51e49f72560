# ruby docs/clients/enqueue.rb "$WORKSPACE" "$DEFINITION" 42, with pg.
require "json"
require "pg"

# Stores an order and enqueues its workflow: both happen, or neither. Said again, it makes nothing twice.
def place_order(conn, workspace, definition, order)
  key = "order-#{order}"
  conn.transaction do
    row = conn.exec_params(<<~SQL, [workspace, definition, JSON.generate(orderId: order), key, ENV["TRACEPARENT"]]).first
      insert into pgdispatch.workflow_execution_queue
          (workspace_id, workflow_definition_id, params, idempotency_key, traceparent)
      values ($1, $2, $3, $4, $5)
      on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
      returning execution_id
    SQL
    row ||= conn.exec_params(<<~SQL, [workspace, key]).first # enqueued before
      select execution_id from pgdispatch.workflow_execution_queue
      where workspace_id = $1 and idempotency_key = $2
    SQL
    conn.exec_params("insert into orders (id, execution_id) values ($1, $2) on conflict do nothing", [order, row["execution_id"]])
    "execution-#{row["execution_id"]}"
  end
end

begin
  conn = PG.connect(ENV.fetch("DATABASE_URL"))
  puts place_order(conn, ARGV[0], ARGV[1], Integer(ARGV[2]))
rescue PG::Error => e
  code = e.result&.error_field(PG::PG_DIAG_SQLSTATE)
  raise unless code&.start_with?("PGD")
  # The row is wrong, and would be refused again.
  abort "#{code}: #{e.result.error_field(PG::PG_DIAG_MESSAGE_PRIMARY)} (#{e.result.error_field(PG::PG_DIAG_MESSAGE_HINT)})"
end
