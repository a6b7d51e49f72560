// java -cp postgresql.jar docs/clients/Enqueue.java "$WORKSPACE" "$DEFINITION" 42, with PostgreSQL's JDBC driver.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import org.postgresql.util.PSQLException;

class Enqueue {
    public static void main(String[] args) throws SQLException {
        try (Connection conn = DriverManager.getConnection(System.getenv("JDBC_URL"))) {
            System.out.println(placeOrder(conn, args[0], args[1], Long.parseLong(args[2])));
        } catch (PSQLException e) {
            if (e.getSQLState() == null || !e.getSQLState().startsWith("PGD")) throw e;
            // The row is wrong, and would be refused again.
            var said = e.getServerErrorMessage();
            System.err.printf("%s: %s (%s)%n", e.getSQLState(), said.getMessage(), said.getHint());
            System.exit(1);
        }
    }

    /** Stores an order and enqueues its workflow: both happen, or neither. Said again, it makes nothing twice. */
    static String placeOrder(Connection conn, String workspace, String definition, long order) throws SQLException {
        String key = "order-" + order;
        conn.setAutoCommit(false);
        try {
            String execution = text(conn, """
                insert into pgdispatch.workflow_execution_queue
                    (workspace_id, workflow_definition_id, params, idempotency_key, traceparent)
                values (?::uuid, ?::uuid, ?::jsonb, ?, ?)
                on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
                returning execution_id""",
                workspace, definition, "{\"orderId\": " + order + "}", key, System.getenv("TRACEPARENT"));
            if (execution == null) { // enqueued before
                execution = text(conn, """
                    select execution_id from pgdispatch.workflow_execution_queue
                    where workspace_id = ?::uuid and idempotency_key = ?""", workspace, key);
            }
            text(conn, "insert into orders (id, execution_id) values (?::bigint, ?::uuid) on conflict do nothing returning id",
                Long.toString(order), execution);
            conn.commit();
            return "execution-" + execution;
        } catch (SQLException e) {
            conn.rollback();
            throw e;
        }
    }

    /** Runs a statement and returns the first column of its first row, or null where there is none. */
    private static String text(Connection conn, String sql, String... values) throws SQLException {
        try (PreparedStatement statement = conn.prepareStatement(sql)) {
            for (int n = 0; n < values.length; n++) statement.setString(n + 1, values[n]);
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : null;
            }
        }
    }
}
