package simulation

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// database is what a replica's stores send their statements to. It passes them to the world by their names.
type database struct {
	of    *replica
	async bool // its commits may be lost
}

// table is the answer to a statement: rows of columns by name.
type table []map[string]any

// sent is a statement with its arguments.
type sent struct {
	name string
	args []any
}

// names are the names of the statements by their texts.
var names = map[string]string{}

func named(text string, args []any) sent {
	name, found := names[text]
	if !found {
		panic("the simulated Postgres does not know the statement " + text)
	}
	return sent{name, args}
}

func (d *database) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	tables, err := d.of.world.ask(ctx, d, named(text, args))
	if err != nil {
		return nil, err
	}
	return &rows{statement: text, table: tables[0], at: -1}, nil
}

func (d *database) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	found, err := d.Query(ctx, text, args...)
	return row{found, err}
}

func (d *database) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	_, err := d.Query(ctx, text, args...)
	return pgconn.CommandTag{}, err
}

func (d *database) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	all := make([]sent, len(batch.QueuedQueries))
	for n, q := range batch.QueuedQueries {
		all[n] = named(q.SQL, q.Arguments)
	}
	tables, err := d.of.world.ask(ctx, d, all...)
	return &results{batch: batch, tables: tables, err: err}
}

type results struct {
	pgx.BatchResults // for the methods that nobody calls
	batch            *pgx.Batch
	tables           []table
	next             int
	err              error
}

func (r *results) Query() (pgx.Rows, error) {
	if r.next == len(r.tables) {
		return &rows{err: r.err, at: -1}, r.err
	}
	r.next++
	return &rows{statement: r.batch.QueuedQueries[r.next-1].SQL, table: r.tables[r.next-1], at: -1}, nil
}

func (r *results) Exec() (pgconn.CommandTag, error) {
	_, err := r.Query()
	return pgconn.CommandTag{}, err
}

func (r *results) QueryRow() pgx.Row { found, err := r.Query(); return row{found, err} }

// Close reads the answers, as pgx does.
func (r *results) Close() error {
	for _, q := range r.batch.QueuedQueries {
		if q.Fn == nil {
			if _, err := r.Exec(); err != nil {
				return err
			}
		} else if err := q.Fn(r); err != nil {
			return err
		}
	}
	return r.err
}

type row struct {
	rows pgx.Rows
	err  error
}

func (r row) Scan(to ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return pgx.ErrNoRows
	}
	return r.rows.Scan(to...)
}

// rows implements pgx.Rows.
type rows struct {
	pgx.Rows  // for the methods that nobody calls
	statement string
	table     table
	at        int
	err       error
}

// columnsOf are the columns of the answers to statements, by their texts.
var columnsOf sync.Map

// FieldDescriptions returns the columns in the order of their names.
func (r *rows) FieldDescriptions() (all []pgconn.FieldDescription) {
	if len(r.table) == 0 {
		return nil
	}
	if known, found := columnsOf.Load(r.statement); found {
		return known.([]pgconn.FieldDescription)
	}
	for _, name := range slices.Sorted(maps.Keys(r.table[0])) {
		all = append(all, pgconn.FieldDescription{Name: name})
	}
	columnsOf.Store(r.statement, all)
	return all
}

func (r *rows) Close()                        {}
func (r *rows) Err() error                    { return r.err }
func (r *rows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }
func (r *rows) Next() bool                    { r.at++; return r.at < len(r.table) }

func (r *rows) Scan(to ...any) error {
	for n, column := range r.FieldDescriptions() {
		if err := assign(to[n], r.table[r.at][column.Name]); err != nil {
			return fmt.Errorf("column %s: %w", column.Name, err)
		}
	}
	return nil
}

// assign stores a value in what to points to.
func assign(to, value any) error {
	if scanner, ok := to.(sql.Scanner); ok {
		return scanner.Scan(value)
	}
	target := reflect.ValueOf(to).Elem()
	from := reflect.ValueOf(value)
	for from.IsValid() && from.Kind() == reflect.Pointer && !from.IsNil() {
		from = from.Elem()
	}
	switch {
	case !from.IsValid(), from.Kind() == reflect.Pointer: // null
		target.SetZero()
		return nil
	case target.Kind() == reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		return assign(target.Interface(), value)
	case !from.CanConvert(target.Type()):
		return fmt.Errorf("cannot store %T in %s", value, target.Type())
	}
	target.Set(from.Convert(target.Type()))
	return nil
}

// names of the statements of a call, for its description.
func describe(all []sent) string {
	list := make([]string, len(all))
	for n, one := range all {
		list[n] = one.name
	}
	return strings.Join(list, "+")
}
