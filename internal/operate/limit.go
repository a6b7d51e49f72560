package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Bounds of a limit's rates. See sql/schema/limits.sql.
const (
	maxWindows           = 4
	maxStarts            = 1_000_000
	minWindow, maxWindow = time.Second, 24 * time.Hour
	maxKey               = 200 // characters
	noLimit              = "off"
)

// KeyLimit is a limit of the items with a limit key, in a workspace or over all workspaces.
type KeyLimit struct {
	ID            int64  `json:"id"`
	WorkspaceID   string `json:"workspace_id,omitempty"` // empty means over all workspaces
	Workspace     string `json:"workspace,omitempty"`
	Key           string `json:"key"`
	MaxConcurrent *int   `json:"max_concurrent"` // nil means no limit
	Rates         Rates  `json:"rates" db:"-"`
	Paused        bool   `json:"paused"` // starts nothing, whatever the limit
	// items that hold slots: at least one more than the limit, if more do
	Active     int64 `json:"active"`
	StartsLeft *int  `json:"starts_left"` // how many more the rates allow now; nil means no limit
	// Waiting is how many due items with the key wait, counted up to CountLimit, and WaitingExact whether they are all.
	// OldestWaiting is how long the longest-due of them has been due. Nil if none waits.
	Waiting       int64          `json:"waiting"`
	WaitingExact  bool           `json:"waiting_exact"`
	OldestWaiting *time.Duration `json:"oldest_waiting_ns"`
	// FullFor is how long the limit has been full, by a look once a minute. Nil if it is not, or not yet by that look.
	FullFor *time.Duration `json:"full_for_ns"`
	// History are the minutes of the last hour in which the limit was used. Nil if they were not read.
	History   []LimitMinute   `json:"history,omitempty" db:"-"`
	MaxStarts []int32         `json:"-"`
	Per       []time.Duration `json:"-"`
}

// Full reports whether another item with the key cannot be claimed now.
func (l KeyLimit) Full() bool {
	return l.Paused || l.MaxConcurrent != nil && l.Active >= int64(*l.MaxConcurrent) ||
		l.StartsLeft != nil && *l.StartsLeft <= 0
}

// Rate is how many items may start in any period of that length.
type Rate struct {
	Starts int
	Per    time.Duration
}

// String returns the rate as ParseRates reads it.
func (r Rate) String() string { return fmt.Sprintf("%d/%s", r.Starts, shortPeriod(r.Per)) }

// shortPeriod formats a whole number of its largest unit: 1m instead of 1m0s.
func shortPeriod(d time.Duration) string {
	text := d.String()
	if whole, found := strings.CutSuffix(text, "m0s"); found {
		text = whole + "m"
	}
	if whole, found := strings.CutSuffix(text, "h0m"); found {
		text = whole + "h"
	}
	return text
}

// Rates are the rates of a limit. Nil means no limit.
type Rates []Rate

// String returns the rates as ParseRates reads them.
func (r Rates) String() string {
	all := make([]string, len(r))
	for n, rate := range r {
		all[n] = rate.String()
	}
	return strings.Join(all, ",")
}

// MarshalJSON returns the rates as one string, or null.
func (r Rates) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return json.Marshal(r.String())
}

// ParseRates reads rates such as "10/s,100/1m". "off" means no limit.
func ParseRates(text string) (Rates, error) {
	if text == noLimit {
		return nil, nil
	}
	rates, seen := Rates{}, map[time.Duration]bool{}
	for part := range strings.SplitSeq(text, ",") {
		starts, period, found := strings.Cut(strings.TrimSpace(part), "/")
		n, err := strconv.Atoi(starts)
		if period != "" && strings.Trim(period, "smh") == "" {
			period = "1" + period
		}
		per, durationErr := time.ParseDuration(period)
		switch {
		case !found || err != nil || durationErr != nil:
			return nil, fmt.Errorf("the rate %.80q must be a number of starts per period, such as 10/s, 100/1m or 5/30s", part)
		case n < 0 || n > maxStarts:
			return nil, fmt.Errorf("the rate %.80q has %d starts: it must have 0 to %d", part, n, maxStarts)
		case per < minWindow || per > maxWindow:
			return nil, fmt.Errorf("the rate %.80q has a period of %s: it must be between 1s and 24h", part, per)
		case seen[per]:
			return nil, fmt.Errorf("the rates have the period %s twice", per)
		}
		seen[per] = true
		rates = append(rates, Rate{n, per})
	}
	if len(rates) > maxWindows {
		return nil, fmt.Errorf("there are %d rates: at most %d are possible", len(rates), maxWindows)
	}
	return rates, nil
}

// RatesPatch is ParseRates for a limit's patch.
func RatesPatch(text string) (Patch, error) {
	rates, err := ParseRates(text)
	if err != nil || rates == nil {
		return Patch{"max_starts": nil, "per": nil}, err
	}
	starts, per := []int{}, []string{}
	for _, rate := range rates {
		starts, per = append(starts, rate.Starts), append(per, rate.Per.String())
	}
	return Patch{"max_starts": starts, "per": per}, nil
}

// MaxPatch parses how many items with a key may run at once. "off" means no limit.
func MaxPatch(text string) (Patch, error) {
	return numberPatch("max_concurrent", "limit", text, noLimit, "")
}

// CheckKey refuses a limit key that no item can have.
func CheckKey(key string) error {
	if length := utf8.RuneCountInString(key); length < 1 || length > maxKey || !utf8.ValidString(key) ||
		strings.ContainsRune(key, 0) {
		return fmt.Errorf("the key %.80q must have 1 to %d characters", key, maxKey)
	}
	return nil
}

// KeyLimitFilter selects limits.
type KeyLimitFilter struct {
	ID          int64  // zero means any
	WorkspaceID string // empty means any, and those over all workspaces
	Key         string // empty means any
	After       int64  // only limits after this ID
}

// KeyLimits returns limits, sorted by their creation. In a scope there are none over all workspaces, whose use would
// show what others run.
func (s *Store) KeyLimits(ctx context.Context, filter KeyLimitFilter, atMost int) ([]KeyLimit, error) {
	return s.keyLimits(ctx, filter, false, atMost)
}

// FullLimits returns the full limits that items with these keys in these workspaces count against, without what waits
// for them.
func (s *Store) FullLimits(ctx context.Context, workspaces, keys []string) ([]KeyLimit, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	limits, err := s.readLimits(ctx, workspaces, keys, true, KeyLimitFilter{}, len(keys)*(len(workspaces)+1), 0)
	return LimitUse{Limits: limits}.Full(), err
}

// Limits is KeyLimits, and without a filter begins with the atMost limits of LimitUse, which no scope has. after is
// where the next page begins. Zero if this is the last.
func (s *Store) Limits(ctx context.Context, filter KeyLimitFilter, atMost int) (limits []KeyLimit, after int64,
	err error) {
	page, err := s.KeyLimits(ctx, filter, atMost)
	if err != nil {
		return nil, 0, err
	}
	if len(page) == atMost {
		after = page[atMost-1].ID
	}
	if s.Scope != nil || filter != (KeyLimitFilter{}) {
		return page, after, s.ReadHistory(ctx, page)
	}
	use, err := s.LimitUse(ctx, atMost)
	for _, l := range page {
		if !slices.ContainsFunc(use.Limits, func(other KeyLimit) bool { return other.ID == l.ID }) {
			use.Limits = append(use.Limits, l)
		}
	}
	return use.Limits, after, errors.Join(err, s.ReadHistory(ctx, use.Limits))
}

// KeyLimitsOf returns the limits that an item with the key counts against: the workspace's and the one over all, which
// is in no scope.
func (s *Store) KeyLimitsOf(ctx context.Context, workspaceID, key string) ([]KeyLimit, error) {
	if key == "" {
		return nil, nil
	}
	return s.keyLimits(ctx, KeyLimitFilter{WorkspaceID: workspaceID, Key: key}, true, 2)
}

func (s *Store) keyLimits(ctx context.Context, f KeyLimitFilter, counted bool, atMost int) ([]KeyLimit, error) {
	var workspaces, keys []string
	if f.WorkspaceID != "" {
		workspaces = []string{f.WorkspaceID}
	}
	if f.Key != "" {
		keys = []string{f.Key}
	}
	return s.readLimits(ctx, workspaces, keys, counted, f, atMost, CountLimit)
}

func (s *Store) readLimits(ctx context.Context, workspaces, keys []string, counted bool, f KeyLimitFilter, atMost,
	waiting int) ([]KeyLimit, error) {
	found, err := postgres.Read[KeyLimit](ctx, s.DB, "read limits", sql.Text("limit_list"), workspaces, keys, counted,
		f.After, atMost, s.Scope, postgres.OrNull(f.ID), waiting)
	for n := range found {
		found[n].readRates()
	}
	return found, err
}

// readRates sets Rates from the columns, and FullFor only if it is full.
func (l *KeyLimit) readRates() {
	for n, most := range l.MaxStarts {
		l.Rates = append(l.Rates, Rate{int(most), l.Per[n]})
	}
	if !l.Full() {
		l.FullFor = nil
	}
}

// SetKeyLimit changes or adds the limit of a key in a workspace, or over all workspaces if workspaceID is empty.
func (s *Store) SetKeyLimit(ctx context.Context, workspaceID, key string, patch Patch, command,
	who string) (Change, error) {
	if !s.mayLimit(workspaceID) {
		return nil, fmt.Errorf("set limit: %w", ErrAll)
	}
	change, err := postgres.Value[Change](ctx, s.DB, "set limit", sql.Text("limit_set"), postgres.OrNull(workspaceID), key,
		patch.text(), command, who)
	if postgres.HasCode(err, uniqueViolation) {
		err = errors.Join(err, errors.New("another session has just added this limit: repeat the command"))
	}
	return change, err
}

// RemoveKeyLimit deletes a limit, and reports whether there was one.
func (s *Store) RemoveKeyLimit(ctx context.Context, workspaceID, key, who string) (bool, error) {
	if !s.mayLimit(workspaceID) {
		return false, fmt.Errorf("remove limit: %w", ErrAll)
	}
	return postgres.Value[bool](ctx, s.DB, "remove limit", sql.Text("limit_remove"), postgres.OrNull(workspaceID), key,
		who)
}

// mayLimit reports whether a limit in this workspace, or over all, is in scope.
func (s *Store) mayLimit(workspaceID string) bool {
	return s.Scope == nil || slices.Contains(s.Scope, workspaceID)
}

// LimitUse is how the limits of keys are used. It is found by the newest 10,000 items that hold slots, and the first
// 1,000 keys by name for which items wait.
type LimitUse struct {
	Limits []KeyLimit `json:"limits"` // those for which items wait first, then the most used
	// OthersActive and OthersWaiting are the sums of the limits that Limits leaves out, of the items that were looked at:
	// at most 100 waiting ones of a key.
	OthersActive  int64 `json:"others_active"`
	OthersWaiting int64 `json:"others_waiting"`
	// Behind is how many items wait for a full one of Limits, and BehindExact whether they are all.
	Behind      int64 `json:"behind"`
	BehindExact bool  `json:"behind_exact"`
}

// limitUseRow is a limit, or, without a key, the sums of the others.
type limitUseRow struct {
	KeyLimit
	Behind int64
}

// Full returns the full limits, those with the most waiting items first.
func (u LimitUse) Full() []KeyLimit {
	full := slices.DeleteFunc(slices.Clone(u.Limits), func(l KeyLimit) bool { return !l.Full() })
	slices.SortStableFunc(full, func(a, b KeyLimit) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return full
}

// LimitUse returns atMost limits. Its cost does not grow with the queue or with the number of limits.
func (s *Store) LimitUse(ctx context.Context, atMost int) (u LimitUse, err error) {
	rows, err := postgres.Read[limitUseRow](ctx, s.DB, "read the use of limits", sql.Text("limits_in_use"), depthLimit,
		atMost)
	for _, row := range rows {
		if row.Key == "" {
			u.OthersActive, u.OthersWaiting, u.Behind = row.Active, row.Waiting, row.Behind
			continue
		}
		row.readRates()
		u.Limits = append(u.Limits, row.KeyLimit)
	}
	u.BehindExact = u.OthersWaiting == 0 &&
		!slices.ContainsFunc(u.Full(), func(l KeyLimit) bool { return !l.WaitingExact })
	return u, err
}

// LimitKey is a limit key of items in a workspace.
type LimitKey struct {
	Key         string `json:"key"`
	WorkspaceID string `json:"workspace_id"`
}

// UnlimitedKeys returns up to atMost limit keys without a limit: of the newest 10,000 items that hold slots, and of the
// 10,000 waiting ones that arrived first.
func (s *Store) UnlimitedKeys(ctx context.Context, atMost int) ([]LimitKey, error) {
	return postgres.Read[LimitKey](ctx, s.DB, "read limit keys", sql.Text("doctor_limit_keys"), depthLimit, atMost,
		s.Scope)
}
