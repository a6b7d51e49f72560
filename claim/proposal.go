package claim

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// claimProposal is the type claim_proposal of sql/tables/003_claim_types.sql.
type claimProposal struct {
	Epoch      *uuid.UUID     `json:"epoch"`
	AtMost     int            `json:"at_most"`
	Leased     int            `json:"leased"`
	LeasedTo   int64          `json:"leased_to"`
	Entries    []claimEntry   `json:"entries"`
	Unanswered int            `json:"unanswered"`
	Alone      bool           `json:"alone"`
	Careful    bool           `json:"careful"`
	Namespaces map[string]int `json:"namespaces,omitempty"`
}

// claimEntry is the type claim_entry.
type claimEntry struct {
	WorkspaceID uuid.UUID `json:"workspace_id"`
	Priority    int       `json:"priority"`
	LimitKey    string    `json:"limit_key,omitempty"`
	Items       int       `json:"items"`
	Burst       bool      `json:"burst"`
	RunAt       time.Time `json:"run_at"`
	ID          int64     `json:"id"`
	Floor       int64     `json:"floor"`
	Held        int       `json:"held"`
	HeldTo      int64     `json:"held_to"`
}

// proposed returns a proposal in JSON.
func (m *memory) proposed(wanted Wanted, p schedule.Proposal) string {
	proposal := claimProposal{AtMost: p.AtMost, Leased: p.Leased.Held, LeasedTo: p.Leased.To,
		Entries: make([]claimEntry, 0, len(p.Entries)), Unanswered: p.Unanswered, Alone: p.Alone, Careful: m.careful(),
		Namespaces: wanted.Namespaces}
	if p.Epoch != (schedule.Epoch{}) {
		epoch := uuid.UUID(p.Epoch)
		proposal.Epoch = &epoch
	}
	for _, e := range p.Entries {
		proposal.Entries = append(proposal.Entries, claimEntry{WorkspaceID: uuid.UUID(e.Workspace), Priority: e.Priority,
			LimitKey: e.Key, Items: e.Items, Burst: e.Burst, RunAt: e.From.Due, ID: e.From.ID, Floor: e.Receipt.Floor,
			Held: e.Receipt.Held, HeldTo: e.Receipt.To})
	}
	text, err := json.Marshal(proposal)
	if err != nil {
		panic(err) // unreachable: only a year from 10000 on has no JSON, and what is asked for is due
	}
	return string(text)
}
