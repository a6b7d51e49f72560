package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// recording is a script and the number of items that it settles.
type recording struct {
	script string
	items  int
}

// recorder keeps the last claim.
type recorder struct {
	claim.Database
	claimed string // as a script
}

// SendBatch sends a batch and keeps the claim in it.
func (r *recorder) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, q := range batch.QueuedQueries {
		switch q.SQL {
		case sql.Text("claim"):
			r.claimed = "execute claim(" + literals(q.Arguments) + ")"
		case sql.Text("claim_plain"):
			r.claimed = "execute lock_claims;\n\nexecute claim_plain(" + literals(q.Arguments) + ")"
		}
	}
	return r.Database.SendBatch(ctx, batch)
}

// record runs the cycles in a copy of the database, where the product's own store claims. It returns a script that
// does the same in the original: IDs, tokens and workspaces are equal in both.
func record(ctx context.Context, l *lab.Lab, cycle []step, cycles int) (r recording, err error) {
	db, err := l.Database(ctx, lab.Ours, nil)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Drop()) }()
	pool, err := storePool(ctx, db.URL)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	claims := &recorder{Database: pool}
	store := &claim.Store{Pool: claims, Owner: "bench", Lease: time.Hour, Namespace: "default"}
	for range cycles {
		for _, s := range cycle {
			line := ""
			switch s.name {
			case "claim":
				batch, err := store.Claim(ctx, s.items)
				if err != nil {
					return r, err
				}
				r.items += len(batch.Items)
				line = claims.claimed
			case "settle":
				line = settle
				_, err = db.Pool.Exec(ctx, line)
			case "enqueue":
				line = "execute enqueue(" + strconv.Itoa(s.items) + ")"
				_, err = db.Pool.Exec(ctx, lab.Query(statements[s.name]), s.items)
			default:
				line = map[string]string{"end": "execute finish_one", "ends": "execute finish_all"}[s.name]
				_, err = db.Pool.Exec(ctx, lab.Query(statements[s.name]))
			}
			if err != nil {
				return r, fmt.Errorf("record %s: %w", s.name, err)
			}
			r.script += line + ";\n\n"
		}
	}
	return r, nil
}

// literals formats the arguments of a statement as SQL text.
func literals(args []any) string {
	texts := make([]string, len(args))
	for n, arg := range args {
		texts[n] = literal(arg)
	}
	return strings.Join(texts, ", ")
}

func literal(arg any) string {
	switch v := arg.(type) {
	case *string:
		if v == nil {
			return "null"
		}
		return literal(*v)
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case []string:
		return array(v)
	case []int:
		return array(v)
	case []int64:
		return array(v)
	case []time.Time:
		return array(v)
	default:
		return "'" + plain(v) + "'"
	}
}

// array formats an array literal. Elements must not contain double quotes.
func array[T any](elements []T) string {
	texts := make([]string, len(elements))
	for n, e := range elements {
		texts[n] = `"` + plain(e) + `"`
	}
	return "'{" + strings.Join(texts, ",") + "}'"
}

func plain(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	case time.Duration:
		return strconv.FormatInt(v.Microseconds(), 10) + " microseconds"
	default:
		return fmt.Sprint(v)
	}
}
