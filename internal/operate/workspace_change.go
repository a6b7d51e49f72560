package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	maxLimit = 100_000 // of a workspace or a key
	// minRate and maxRate bound a workspace's rate, in starts per second.
	minRate, maxRate = 0.0001, 100_000
)

// Patch has the columns of a row to change with their new values. Nil stands for the default, which is no limit or the
// plan's.
type Patch map[string]any

func (p Patch) text() string {
	text, _ := json.Marshal(p) // numbers, texts and lists of them
	return string(text)
}

// Terms are functions that parse what is agreed with a workspace or of a key, by their names in commands and forms.
type Terms map[string]func(text string) (Patch, error)

var (
	// WorkspaceTerms are those of a workspace, KeyTerms those of a limit key.
	WorkspaceTerms = Terms{"limit": LimitPatch, "burst": BurstPatch, "rate": RatePatch}
	KeyTerms       = Terms{"max": MaxPatch, "rates": RatesPatch}
)

// ReadTerms returns one patch with the terms that are given. wrong formats an error with the name of its term.
func ReadTerms(terms Terms, wrong string, given func(name string) (text string, is bool)) (Patch, error) {
	all, faults := Patch{}, []error{}
	for name, parse := range terms {
		if text, is := given(name); is {
			patch, err := parse(text)
			if err != nil {
				faults = append(faults, fmt.Errorf(wrong, name, err))
			}
			maps.Copy(all, patch)
		}
	}
	return all, errors.Join(faults...)
}

// Change maps each changed column to its old and new value.
type Change map[string][2]any

// ChangeWorkspace changes a workspace and returns the columns that changed. The change applies from the next claim on.
func (s *Store) ChangeWorkspace(ctx context.Context, id string, patch Patch, command, who string) (Change, error) {
	return postgres.Value[Change](ctx, s.DB, "change workspace", sql.Text("workspace_set"), id, who, command, patch.text(),
		s.Scope)
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

// PlanPatch parses the name of a plan, ignoring case. It returns an error if plans does not contain it.
func PlanPatch(plans []Plan, text string) (Patch, error) {
	names := make([]string, len(plans))
	for n, plan := range plans {
		if names[n] = plan.Name; strings.EqualFold(plan.Name, text) {
			return Patch{"plan": plan.Name}, nil
		}
	}
	likely := ""
	if nearest := spelling.Nearest(text, names); nearest != "" {
		likely = fmt.Sprintf("; did you mean %s?", nearest)
	}
	return nil, fmt.Errorf("unknown plan %.80q: use %s, or insert it into pgdispatch.workspace_tiers%s", text,
		strings.Join(names, ", "), likely)
}

// LimitPatch parses the maximum number of concurrent workflows, or "plan" for the plan's limit.
func LimitPatch(text string) (Patch, error) {
	return numberPatch("max_concurrent_workflows", "limit", text, "plan", "; 0 starts no workflows")
}

// BurstPatch parses the maximum number of concurrent workflows in a burst, or "plan" for the plan's burst limit.
func BurstPatch(text string) (Patch, error) {
	return numberPatch("max_burst_workflows", "burst limit", text, "plan", "; none above the limit means no burst")
}

// numberPatch parses the limit of a column, or the word for its default. hint ends the error.
func numberPatch(column, name, text, word, hint string) (Patch, error) {
	if text == word {
		return Patch{column: nil}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxLimit {
		return nil, fmt.Errorf("the %s is %.80q: it must be %s or a whole number from 0 to %d%s", name, text, word, maxLimit,
			hint)
	}
	return Patch{column: n}, nil
}

// RatePatch parses the maximum number of starts per second, or "off" for no rate limit.
func RatePatch(text string) (Patch, error) {
	if text == noLimit {
		return Patch{"max_starts_per_second": nil}, nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(rate) || rate < minRate || rate > maxRate {
		return nil, fmt.Errorf("the rate is %.80q: it must be off, or from %g to %d starts per second; to stop all starts, "+
			"pause the workspace", text, minRate, maxRate)
	}
	return Patch{"max_starts_per_second": rate}, nil
}

// CreatedWorkspace is a workspace that was created.
type CreatedWorkspace struct {
	ID   string `json:"id"`
	Plan string `json:"plan"`
}

// CreateWorkspace inserts a workspace with the columns of the patch. It needs the owner's role.
func (s *Store) CreateWorkspace(ctx context.Context, name string, patch Patch, who string) (CreatedWorkspace, error) {
	return postgres.Row[CreatedWorkspace](ctx, s.DB, "create workspace", sql.Text("workspace_create"), name, patch.text(),
		who)
}

// CheckName refuses a name that a workspace or definition cannot have. what names its flag or argument.
func CheckName(what, name string) error {
	n := utf8.RuneCountInString(name)
	if n < 1 || n > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s is %.80q: it must have 1 to %d characters and no control characters", what, name, maxName)
	}
	return nil
}
