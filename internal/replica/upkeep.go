package replica

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// upkeep records which parts of the upkeep fail, with their errors. It is safe for concurrent use.
type upkeep struct {
	mu      sync.Mutex
	swept   map[string]string // of the last sweep
	watches error             // of the last attempt to take over executions
}

// sweptWith records what failed in a sweep.
func (u *upkeep) sweptWith(failing map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.swept = failing
}

// adoptedWith records the result of an attempt to take over executions.
func (u *upkeep) adoptedWith(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watches = err
}

// failing returns the parts that fail, with their errors.
func (u *upkeep) failing() map[string]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := maps.Clone(u.swept)
	if u.watches != nil {
		if all == nil {
			all = map[string]string{}
		}
		all[sweeper.PartWatches] = postgres.Redact(u.watches).Error()
	}
	return all
}

// names returns the parts that fail, sorted.
func (u *upkeep) names() []string { return slices.Sorted(maps.Keys(u.failing())) }

// err returns an error that names those of parts that fail, or nil.
func (u *upkeep) err(parts []string) error {
	failing := u.failing()
	var lines []string
	for _, part := range parts {
		if why, fails := failing[part]; fails {
			lines = append(lines, part+": "+why)
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "; "))
}
