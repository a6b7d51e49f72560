package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// lookAgain is the age up to which the last look counts as current, so that a claim is sent without another look.
const lookAgain = 2 * time.Millisecond

// Claim leases up to atMost due items. W, workspace limits and pauses are enforced exactly across all replicas.
func (s *Store) Claim(ctx context.Context, atMost int) (Batch, error) {
	batch, _, err := s.SettleAndClaim(ctx, nil, Wanted{AtMost: atMost, Look: true, Quiet: true})
	return batch, err
}

// SettleAndClaim settles claims whose workflows were started and claims new items, in one transaction, so that the
// claim can use the slots that the settle frees. It returns the settled IDs; the lease of a missing ID was lost. After
// ErrApart nothing was done. After any other error the transaction may have been committed; settling again is then a
// no-op.
//
// This replica's in-memory schedule decides what to ask for. It does not ask for items that it knows not to exist.
func (s *Store) SettleAndClaim(ctx context.Context, started []Settlement,
	wanted Wanted) (batch Batch, settled []int64, err error) {
	m := &s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	batch.LookAgainIn, m.arrived = -1, 0
	defer s.tellSetBack()
	if m.seen != "" {
		m.schedule.Tell(m.now())
	}
	looks := !m.applyNotifications(wanted.Named) || wanted.Look || m.seen == ""
	if looks {
		if batch.Unannounced, err = s.look(ctx); err != nil {
			return batch, nil, fmt.Errorf("%s: %w", claimVerb, err)
		}
	}

	ctx, cancel := postgres.Bound(ctx, claimTimeout, claimVerb)
	defer cancel()
	m.reopen(wanted.Namespaces)
	want := schedule.Want{Free: wanted.AtMost, Holding: wanted.Holding, Reserved: wanted.Reserved, Fresh: wanted.Fresh,
		Limited: len(wanted.Namespaces) > 0, Careful: m.careful()}
	proposal := m.schedule.Propose(m.now(), want)

	batch.Unsent = !looks && proposal.Empty() && len(started) == 0
	switch {
	case !proposal.Empty():
		settled, err = s.send(ctx, started, wanted, proposal, &batch)
		if postgres.HasCode(err, postgres.LockNotAvailable) && !errors.Is(err, ErrApart) && !m.careful() {
			m.carefulTo, want.Careful = time.Now().Add(carefulFor), true
			settled, err = s.send(ctx, started, wanted, m.schedule.Propose(m.now(), want), &batch)
		}
		switch {
		case postgres.IsRefused(err) && len(started) > 0:
			err = fmt.Errorf("%w: %w", ErrApart, err)
		case postgres.IsRefused(err):
			err = s.claimAround(ctx, wanted, want, err, &batch)
		}
	case len(started) > 0:
		if settled, err = s.settle(ctx, Dispatched, started); postgres.IsRefused(err) ||
			postgres.HasCode(err, postgres.LockNotAvailable) {
			err = fmt.Errorf("%w: %w", ErrApart, err)
		}
	}
	if err != nil {
		return Batch{LookAgainIn: -1}, nil, err
	}

	now := m.now()
	batch.Arrived, batch.Paused = m.arrived, m.schedule.Paused()
	batch.Forgot, m.forgot = m.forgot, false
	for _, f := range m.schedule.Full(now) {
		batch.AtCapacity = append(batch.AtCapacity,
			Full{WorkspaceID: uuid.UUID(f.Workspace).String(), Active: f.Active, Limit: f.Limit})
	}
	s.demand.note(&batch)
	if len(batch.AtCapacity) > 0 && s.Full != nil {
		s.Full()
	}

	batch.More, batch.Capped = m.schedule.Ready(now), m.schedule.Capped()
	if next := m.schedule.Next(now); !next.IsZero() {
		batch.LookAgainIn = max(next.Sub(now), 0)
	}
	if m.seen == "" || slices.ContainsFunc(m.unread, m.canRead) { // the schedule may be wrong, or there is more to read
		batch.LookAgainIn = 0
	}
	return batch, settled, nil
}

const claimVerb = "claim items"

// requiresReadCommitted is the SQLSTATE of lock_claims in a transaction with another isolation.
const requiresReadCommitted = "PGD30"

// tellSetBack calls SetBack if the current claim found that Postgres' clock was set back.
func (s *Store) tellSetBack() {
	if s.memory.setBack && s.SetBack != nil {
		s.SetBack()
	}
	s.memory.setBack = false
}

// careful reports whether claims currently skip locked rows instead of waiting for them.
func (m *memory) careful() bool { return time.Now().Before(m.carefulTo) }

// reopen makes the schedule ask again for items that the last claim skipped because of their namespace, if that
// namespace now allows more.
func (m *memory) reopen(namespaces map[string]int) {
	some, all := false, false
	for name, allowed := range m.limited {
		if now, limited := namespaces[name]; !limited || now > 0 {
			some, all = true, all || allowed == 0
		}
	}
	if m.limited = maps.Clone(namespaces); some {
		m.schedule.Reopened(all)
	}
}

// send settles and claims, and applies the answer to the memory.
func (s *Store) send(ctx context.Context, started []Settlement, wanted Wanted, p schedule.Proposal,
	batch *Batch) (settled []int64, err error) {
	plain := s.memory.isPlain(wanted, p)
	settled, declined, err := s.sendOne(ctx, plain, started, wanted, p, nil, batch)
	if declined && err == nil && s.memory.seen != "" {
		wanted.Quiet = true                                   // it has just looked
		p = s.memory.schedule.Propose(s.memory.now(), p.Want) // with what it found
		_, _, err = s.sendOne(ctx, false, nil, wanted, p, nil, batch)
	}
	if settled != nil {
		err = nil // the settle is committed; the next claim meets the same error
	}
	return settled, err
}

// sendOne is send with one of two statements: claim_plain if plain is true, and claim otherwise. It reports
// whether claim_plain declined the proposal, which leaves the claim to be made by the other one. If head is not nil,
// sendOne sets it to the item that a claim of a single item was about to take, even if that claim fails. What settled
// names is committed, even if there is an error.
func (s *Store) sendOne(ctx context.Context, plain bool, started []Settlement, wanted Wanted, p schedule.Proposal,
	head *refusedHead, batch *Batch) (settled []int64, declined bool, err error) {
	m := &s.memory
	asked := time.Now()
	statements := &pgx.Batch{}
	if s.isolate {
		statements.Queue("begin isolation level read committed")
	}
	if len(started) > 0 {
		statements.Queue(sql.Text("dispatched"), s.dispatchedArgs(started)...).Query(func(rows pgx.Rows) (err error) {
			settled, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			if postgres.HasCode(err, postgres.LockNotAvailable) {
				err = fmt.Errorf("%w: %w", ErrApart, err)
			}
			return err
		})
	}

	answer := claimAnswer{deadline: asked.Add(s.Lease)}
	var rows []claimed
	s.queueClaim(statements, plain, wanted, p, head, &rows)

	var changes []news
	looks := !wanted.Quiet && asked.Sub(m.lookedAt) > lookAgain
	if looks {
		statements.Queue(sql.Text("look"), m.seen, mostArrivals, m.epoch).Query(func(rows pgx.Rows) (err error) {
			changes, err = postgres.Collect(rows, pgx.RowToStructByName[news])
			return err
		})
	}
	if s.isolate {
		statements.Queue("commit")
	}

	// The batch is one implicit transaction; it needs no BEGIN unless transactions have another isolation by default.
	err = s.Pool.SendBatch(ctx, statements).Close()
	_, isCallers := s.Pool.(pgx.Tx) // whose isolation can change no more
	if postgres.HasCode(err, requiresReadCommitted) && !s.isolate && !isCallers {
		s.isolate = true
		return s.sendOne(ctx, plain, started, wanted, p, head, batch)
	}
	if err != nil {
		explained := postgres.Explain(ctx, s.Pool, claimVerb, err)
		if postgres.MayHaveCommitted(err) {
			explained = fmt.Errorf("%w: %w", ErrUncertain, explained)
		}
		return nil, false, s.unread(ctx, explained)
	}

	if err := answer.take(rows, p); err != nil {
		return settled, false, s.unread(ctx, fmt.Errorf("%s: %w", claimVerb, err))
	}
	if err := s.readNodeIDs(ctx, &answer); err != nil {
		return settled, false, s.release(ctx, err)
	}

	declined = answer.standing.Declined
	batch.Statements.count(plain, declined)
	if len(started) == 0 && !looks && len(answer.items) > 0 {
		batch.Flush = max(time.Since(asked)-time.Duration(answer.standing.Took)*time.Microsecond, 0)
	}
	if !declined {
		m.apply(p, wanted, answer, asked, batch)
	}
	if looks {
		before := m.seen
		if changed := m.learn(changes, asked); !changed.whole || before == "" {
			m.seen = "" // the next claim loads
		} else if changed.crowded {
			_ = s.readArrivals(ctx, before, changed) // after an error, the next look reads the same changes again
		}
	}
	return settled, declined, nil
}

// queueClaim adds one of the two statements to a batch, which sets rows and head to their answers.
func (s *Store) queueClaim(statements *pgx.Batch, plain bool, wanted Wanted, p schedule.Proposal, head *refusedHead,
	rows *[]claimed) {
	read := func(found pgx.Rows) (err error) {
		*rows, err = postgres.Collect(found, pgx.RowToStructByName[claimed])
		return err
	}
	if plain {
		statements.Queue(sql.Text("lock_claims"))
		statements.Queue(sql.Text("claim_plain"), s.plainArgs(p)...).Query(read)
		return
	}
	namespace, proposal := postgres.OrNull(s.Namespace), s.memory.proposed(wanted, p)
	if head != nil {
		statements.Queue(sql.Text("claim_head"), s.Owner, namespace, proposal).Query(func(rows pgx.Rows) error {
			heads, err := pgx.CollectRows(rows, pgx.RowToStructByName[refusedHead])
			if len(heads) > 0 {
				*head = heads[0]
			}
			return err
		})
	}
	statements.Queue(sql.Text("claim"), s.Owner, s.Lease, s.watcher(p.AtMost), namespace, proposal).Query(read)
}

// isPlain reports whether claim_plain may serve a proposal: see sql/claim/plain.sql.
func (m *memory) isPlain(wanted Wanted, p schedule.Proposal) bool {
	if len(p.Entries) == 0 || p.Unanswered > 0 || len(wanted.Namespaces) > 0 || m.careful() ||
		p.Epoch == (schedule.Epoch{}) {
		return false
	}
	workspaces := make(map[schedule.WorkspaceID]bool, len(p.Entries))
	for _, e := range p.Entries {
		if e.Key != "" || e.Burst || e.Rated || workspaces[e.Workspace] {
			return false
		}
		workspaces[e.Workspace] = true
	}
	return true
}

// unread releases what a claim has taken if err is that its answer could not be read.
func (s *Store) unread(ctx context.Context, err error) error {
	var unexpected *postgres.UnexpectedError
	if !errors.As(err, &unexpected) {
		return err
	}
	return s.release(ctx, err)
}

// release releases what a claim has taken and cannot be started because of err, which it returns. Otherwise the items
// would wait for their leases to expire, and after three times count as killing their holders.
func (s *Store) release(ctx context.Context, err error) error {
	last, releaseErr := postgres.Value[int64](ctx, s.async(), "read the last token", sql.Text("last_token"))
	if releaseErr == nil {
		_, releaseErr = s.ids(ctx, "release items", sql.Text("release_unread"), s.Owner, s.memory.drawn, last)
	}
	return errors.Join(err, releaseErr)
}

// plainArgs returns the arguments of claim_plain.
func (s *Store) plainArgs(p schedule.Proposal) []any {
	var (
		workspaces               []schedule.WorkspaceID
		priorities, items, helds []int
		dues                     []time.Time
		ids, floors, heldTos     []int64
	)
	for _, e := range p.Entries {
		workspaces = append(workspaces, e.Workspace)
		priorities, items = append(priorities, e.Priority), append(items, e.Items)
		dues, ids = append(dues, e.From.Due), append(ids, e.From.ID)
		floors, helds, heldTos = append(floors, e.Receipt.Floor), append(helds, e.Receipt.Held), append(heldTos, e.Receipt.To)
	}
	return []any{s.Owner, s.Lease, s.watcher(p.AtMost), uuid.UUID(p.Epoch).String(), p.AtMost, p.Leased.Held, p.Leased.To,
		workspaces, priorities, items, dues, ids, floors, helds, heldTos, postgres.OrNull(s.Namespace)}
}

// apply stores the answer to a proposal in the memory and in the batch.
func (m *memory) apply(p schedule.Proposal, wanted Wanted, answer claimAnswer, asked time.Time, batch *Batch) {
	if p.Epoch != (schedule.Epoch{}) &&
		(answer.standing.Epoch == nil || schedule.Epoch(*answer.standing.Epoch) != p.Epoch) {
		m.seen = "" // a crash may also have lost transactions, whose IDs are then reused
	}
	if !m.tell(answer.standing.At, asked) {
		m.seen = ""
	}
	batch.Shared, m.drawn = answer.standing.LastToken > m.drawn, answer.standing.LastToken
	for _, item := range answer.items {
		m.drawn = max(m.drawn, item.Token)
	}
	answer.startable(p)
	batch.Items, batch.Asked = answer.items, len(p.Entries)+min(p.Unanswered, 1)
	batch.Room = answer.standing.Room - len(answer.items)
	batch.Vain = m.schedule.Apply(m.now(), p, answer.schedule(p, wanted.Namespaces))
	for n := range batch.Items {
		batch.Items[n].Awaited = m.schedule.Awaited(answer.workspaces[n], batch.Items[n].LimitKey)
	}
}
