package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// restPoll is the default poll interval, by which an idle replica's statements are counted.
const restPoll = 5 * time.Second

// Rest measures what a replica does while it is idle.
func Rest() *Scenario {
	return &Scenario{
		Name: "rest", Title: "An idle replica",
		Text: "One replica with its defaults, idle for a minute, in which it once compares all waiting " +
			"items with its memory: its statements by `pg_stat_statements`, with those for liveness " +
			"separate (its row in `replicas` and its listener's ping), and its CPU by /proc.",
		Entrants: []Entrant{
			{Name: "pgdispatch", Colour: blue, Run: restRun},
		},
		Columns: []Column{{"statements", "statements a poll interval"},
			{"alive", "of liveness, a poll interval"}, {"cpu", "CPU %"}},
		MaxRounds: 2,
		Bars: []Bar{
			{Text: "Idle replica: statements a poll interval besides liveness",
				Value: Key{"pgdispatch", "statements"}, Level: 1},
			{Text: "Idle replica: CPU %", Value: Key{"pgdispatch", "cpu"}, Level: 0.5},
		},
	}
}

func restRun(ctx context.Context, t *Turn) error {
	c := replicas(1, lab.Replica{}, Alone("enqueue"))
	if t.HasStatements {
		c.settings = map[string]string{"pg_stat_statements.track": "top"}
	}
	s, err := t.setUp(ctx, c, frontend.Options{CloseAfter: 0})
	if err != nil {
		return err
	}
	return s.close(rest(ctx, t, s))
}

func rest(ctx context.Context, t *Turn, s *stage) error {
	if t.HasStatements {
		if _, err := s.db.Pool.Exec(ctx, "create extension pg_stat_statements"); err != nil {
			return fmt.Errorf("count statements: %w", err)
		}
	}
	if err := s.start(); err != nil {
		return err
	}
	if err := s.warmUp(ctx, 5); err != nil {
		return err
	}
	// The replica still records the ends of the warm-up's workflows.
	if err := sleepUntil(ctx, time.Now().Add(Quickly(t, 10*time.Second, time.Second))); err != nil {
		return err
	}
	before, err := s.statements(ctx)
	if err != nil {
		return err
	}
	cpuBefore, err := s.processes[0].CPU()
	if err != nil {
		return err
	}
	duration := Quickly(t, 12*restPoll, 2*time.Second)
	if err := sleepUntil(ctx, time.Now().Add(duration)); err != nil {
		return errors.Join(err, s.alive())
	}
	cpuAfter, err := s.processes[0].CPU()
	if err != nil {
		return err
	}
	after, err := s.statements(ctx)
	if err != nil {
		return err
	}
	t.Figures["cpu"] = 100 * (cpuAfter - cpuBefore).Seconds() / duration.Seconds()
	if !t.HasStatements {
		t.Notes = append(t.Notes, "This server has no pg_stat_statements: statements were not counted.")
		return nil
	}
	t.countRest(before, after, float64(duration)/float64(restPoll))
	return nil
}

// countRest divides the statements between two readings into liveness and the rest, and adds a note with their texts.
func (t *Turn) countRest(before, after map[string]int64, polls float64) {
	t.Figures["alive"], t.Figures["statements"] = 0, 0
	for query, calls := range after {
		calls -= before[query]
		if calls <= 0 {
			continue
		}
		figure := "statements"
		if strings.Contains(query, "insert into pgdispatch.replicas") || strings.Contains(query, "pg_notify") {
			figure = "alive"
		} else {
			t.Notes = append(t.Notes, fmt.Sprintf("Asked while idle: `%s`", shorten(query)))
		}
		t.Figures[figure] += float64(calls) / polls
	}
}

// statements returns the statements that the database has executed so far and their counts, without this query.
func (s *stage) statements(ctx context.Context) (map[string]int64, error) {
	if !s.lab.HasStatements {
		return nil, nil
	}
	rows, err := s.db.Pool.Query(ctx, lab.Query("statements"))
	if err != nil {
		return nil, fmt.Errorf("count statements: %w", err)
	}
	calls := map[string]int64{}
	var n int64
	var query string
	_, err = pgx.ForEachRow(rows, []any{&n, &query}, func() error {
		calls[query] += n
		return nil
	})
	return calls, err
}

// shorten removes a statement's comments and keeps its beginning.
func shorten(query string) string {
	var kept []string
	for line := range strings.Lines(query) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			kept = append(kept, line)
		}
	}
	text := strings.Join(kept, " ")
	if len(text) > 100 {
		text = text[:100] + " …"
	}
	return text
}
