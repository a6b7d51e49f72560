package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/spelling"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	maxName  = 200     // characters of a workspace's or definition's name
	maxLimit = 100_000 // of a workspace
	// minRate and maxRate bound a workspace's rate, in starts per second.
	minRate, maxRate = 0.0001, 100_000
)

// WorkspaceChange is a set of changes to a workspace.
type WorkspaceChange struct {
	Plan      string   // empty leaves it unchanged
	Paused    *bool    // nil leaves it unchanged
	SetLimit  bool     // whether to change the limit
	Limit     *int     // with SetLimit; nil means the plan's
	SetStarts bool     // whether to change the rate
	Starts    *float64 // with SetStarts, starts per second; nil means no rate limit
	SetBurst  bool     // whether to change the burst limit
	Burst     *int     // with SetBurst; nil means the plan's
}

// Change maps each changed column to its old and new value.
type Change map[string][2]any

// ChangeWorkspace changes a workspace and returns the columns that changed. The change applies from the next claim on.
func (s *Store) ChangeWorkspace(ctx context.Context, id, who, command string, c WorkspaceChange) (Change, error) {
	details, err := postgres.Value[string](ctx, s.DB, "change workspace", sql.Text("workspace_set"),
		id, who, command, postgres.OrNull(c.Plan), c.Paused, c.SetLimit, c.Limit, c.SetStarts, c.Starts, c.SetBurst, c.Burst,
		s.Scope)
	if err != nil {
		return nil, err
	}
	change := Change{}
	if err := json.Unmarshal([]byte(details), &change); err != nil {
		return nil, fmt.Errorf("change workspace: read what was changed: %w", err)
	}
	return change, nil
}

// Plan is a workspace tier.
type Plan struct {
	Name                   string `json:"plan"`
	MaxConcurrentWorkflows int    `json:"max_concurrent_workflows"`
	MaxBurstWorkflows      *int   `json:"max_burst_workflows"` // nil means none beyond the limit
}

// Plans returns all plans, the one with the lowest limit first.
func (s *Store) Plans(ctx context.Context) ([]Plan, error) {
	return postgres.Read[Plan](ctx, s.DB, "read plans", sql.Text("tier_list"))
}

// PlanChange parses the name of a plan, ignoring case. It returns an error if plans does not contain it.
func PlanChange(plans []Plan, text string) (WorkspaceChange, error) {
	names := make([]string, len(plans))
	for n, plan := range plans {
		if names[n] = plan.Name; strings.EqualFold(plan.Name, text) {
			return WorkspaceChange{Plan: plan.Name}, nil
		}
	}
	likely := ""
	if nearest := spelling.Nearest(text, names); nearest != "" {
		likely = fmt.Sprintf("; did you mean %s?", nearest)
	}
	return WorkspaceChange{}, fmt.Errorf("unknown plan %.80q: use %s, or insert it into pgdispatch.workspace_tiers%s",
		text, strings.Join(names, ", "), likely)
}

// LimitChange parses the maximum number of concurrent workflows, or "plan" for the plan's limit.
func LimitChange(text string) (WorkspaceChange, error) {
	n, err := workflows("limit", text, "0 starts no workflows")
	return WorkspaceChange{SetLimit: err == nil, Limit: n}, err
}

// BurstChange parses the maximum number of concurrent workflows in a burst, or "plan" for the plan's burst limit.
func BurstChange(text string) (WorkspaceChange, error) {
	n, err := workflows("burst limit", text, "none above the limit means no burst")
	return WorkspaceChange{SetBurst: err == nil, Burst: n}, err
}

// workflows parses a number of concurrent workflows, or "plan", for which it returns nil. hint ends the error.
func workflows(name, text, hint string) (*int, error) {
	if text == "plan" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxLimit {
		return nil, fmt.Errorf("the %s is %.80q: it must be plan or a whole number from 0 to %d; %s", name, text, maxLimit,
			hint)
	}
	return &n, nil
}

// RateChange parses the maximum number of starts per second, or "off" for no rate limit.
func RateChange(text string) (WorkspaceChange, error) {
	if text == "off" {
		return WorkspaceChange{SetStarts: true}, nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(rate) || rate < minRate || rate > maxRate {
		return WorkspaceChange{},
			fmt.Errorf("the rate is %.80q: it must be off, or from %g to %d starts per second; to stop all starts, pause the "+
				"workspace", text, minRate, maxRate)
	}
	return WorkspaceChange{SetStarts: true, Starts: &rate}, nil
}

// NewWorkspace is a workspace to create.
type NewWorkspace struct {
	Name   string
	Plan   string   // empty means FREE
	Limit  *int     // nil means the plan's
	Starts *float64 // per second; nil means no limit
	Burst  *int     // nil means the plan's
	Paused bool
}

// CreatedWorkspace is a workspace that was created.
type CreatedWorkspace struct {
	ID   string `json:"id"`
	Plan string `json:"plan"`
}

// CreateWorkspace inserts a workspace. It needs the owner's role.
func (s *Store) CreateWorkspace(ctx context.Context, w NewWorkspace, who string) (CreatedWorkspace, error) {
	made, err := postgres.Read[CreatedWorkspace](ctx, s.DB, "create workspace", sql.Text("workspace_create"),
		w.Name, postgres.OrNull(w.Plan), w.Limit, w.Starts, w.Paused, who, w.Burst)
	if err != nil || len(made) == 0 {
		return CreatedWorkspace{}, err
	}
	return made[0], nil
}

// CheckName refuses a name that a workspace or definition cannot have. what names its flag or argument.
func CheckName(what, name string) error {
	n := utf8.RuneCountInString(name)
	if n < 1 || n > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s is %.80q: it must have 1 to %d characters and no control characters", what, name, maxName)
	}
	return nil
}
