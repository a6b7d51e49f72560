// go run ./docs/clients "$WORKSPACE" "$DEFINITION" 42, with github.com/jackc/pgx/v5.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func main() {
	ctx := context.Background()
	if len(os.Args) != 4 || os.Getenv("DATABASE_URL") == "" {
		fmt.Fprintln(os.Stderr, "usage: DATABASE_URL=... go run ./docs/clients WORKSPACE DEFINITION ORDER")
		os.Exit(2)
	}
	workflow, err := placeOrder(ctx, os.Args[1], os.Args[2], os.Args[3])
	var refused *pgconn.PgError
	switch {
	case err == nil:
		fmt.Println(workflow)
	// the row is wrong, and would be refused again
	case errors.As(err, &refused) && strings.HasPrefix(refused.Code, "PGD"):
		fmt.Fprintf(os.Stderr, "%s: %s (%s)\n", refused.Code, refused.Message, refused.Hint)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// placeOrder stores an order and enqueues its workflow: both happen, or neither. Said again, it makes nothing twice.
func placeOrder(ctx context.Context, workspace, definition, order string) (workflow string, err error) {
	number, err := strconv.ParseInt(order, 10, 64)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var execution string
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			insert into pgdispatch.workflow_execution_queue
			    (workspace_id, workflow_definition_id, params, idempotency_key, traceparent)
			values ($1, $2, $3, $4, nullif($5, ''))
			on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
			returning execution_id::text`,
			workspace, definition, map[string]any{"orderId": number}, "order-"+order, os.Getenv("TRACEPARENT")).Scan(&execution)
		if errors.Is(err, pgx.ErrNoRows) { // enqueued before
			err = tx.QueryRow(ctx, `
				select execution_id::text from pgdispatch.workflow_execution_queue
				where workspace_id = $1 and idempotency_key = $2`, workspace, "order-"+order).Scan(&execution)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "insert into orders (id, execution_id) values ($1, $2) on conflict do nothing", number,
			execution)
		if err != nil {
			return err
		}
		// One digest of all orders, once none has come for a minute, an hour after the first at the latest.
		_, err = tx.Exec(ctx, `
			select from pgdispatch.enqueue(workspace_id => $1, workflow_definition_id => $2, params => '{"digest": true}',
			    key => 'digest', on_conflict => 'debounce', quiet => '1 min', at_most => '1 hour')`, workspace, definition)
		return err
	})
	return "execution-" + execution, err
}
