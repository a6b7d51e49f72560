package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sethvargo/go-retry"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

const (
	// claimConnections serves claims, which run one at a time.
	claimConnections = 2
	// otherConnections serves everything else: settles, heartbeats, sweeps, pings and recorded ends.
	otherConnections = 8
	// pingInterval is how often the listener checks its connection, and hearTimeout how long an answer may take. A dead
	// connection is thus closed within their sum.
	pingInterval = 2 * time.Second
	hearTimeout  = 3 * time.Second
	// retentionInterval is how often the sweeper looks for finished items to delete.
	retentionInterval = 10 * time.Second
	// closeInterval is how often one of all replicas lists closed workflows while an open execution is unwatched.
	closeInterval = time.Second
	// stallInterval is how often one of all replicas looks for executions without progress, and stallAge the minimum
	// run time of the executions it checks.
	stallInterval = time.Minute
	stallAge      = time.Minute
	// reachLimit is how long Temporal may stay silent before this replica gives up its watches. It is capped at half of
	// the lease.
	reachLimit = 10 * time.Second
	// presenceInterval is how often a replica renews its presence and reports its state. It is capped at a third of the
	// lease.
	presenceInterval = 10 * time.Second
	// farewellTimeout limits the final database calls of a stopping replica.
	farewellTimeout = 3 * time.Second
)

func (a *app) runCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a replica until SIGTERM",
		Long: "Run a replica: claim items, start their workflows, and watch for their ends. Run as many as you like.\n" +
			"SIGTERM or Ctrl-C lets hand-overs under way finish; a second one exits at once.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := a.readVerified(command, runOptions)
			if err := errors.Join(err, c.checkOperatorAddress(), c.checkTemporalAddress(), c.checkCallbacks(), c.checkTokens()); err != nil {
				return err
			}
			lines := newLogLines(a.stderr)
			return lines.During(command.Context(), func() error {
				return runReplica(command.Context(), c, lines.Logger(c.logLevel))
			})
		},
	}
	addFlags(command.Flags(), runOptions)
	return command
}

// replica holds all parts of a replica.
type replica struct {
	config
	store     *telemetry.Store
	pulse     *telemetry.Pulse
	log       *slog.Logger
	wake      chan string
	stopWake  chan struct{}
	hints     dispatch.Hints
	dispatch  *dispatch.Dispatcher
	ends      *complete.Ends
	reach     *complete.Reach
	watcher   *complete.Watcher
	reconcile *complete.Reconciler
	stopper   *complete.Stopper
	detector  *complete.Detector
	sweeper   *sweeper.Sweeper
	retention *sweeper.Retention
	listener  *notify.Listener    // nil if PGDISPATCH_LISTEN=off
	gate      *notify.Gate        // nil if PGDISPATCH_LISTEN=off
	callbacks *complete.Callbacks // nil if no callback URL is configured

	// Results of the last sweep.
	open, unwatched, deletes atomic.Bool
	namespaces               atomic.Pointer[[]string]
}

func runReplica(ctx context.Context, c config, log *slog.Logger) error {
	collectByHeap()
	owner := replicaName()
	log = log.With("replica", owner)
	return observed(ctx, c, owner, log, func(ctx context.Context, t *telemetry.Telemetry, health *telemetry.Health) error {
		return runObserved(ctx, c, owner, log, t, health)
	})
}

// runObserved runs a replica with its telemetry set up.
func runObserved(ctx context.Context, c config, owner string, log *slog.Logger, t *telemetry.Telemetry, health *telemetry.Health) error {
	temporal, namespace, err := temporalClient(c, log)
	if err != nil {
		return err
	}
	defer temporal.Close()
	log.Info("Starting", "version", buildVersion(), "namespace", namespace, "workers", c.workers, "lease", c.lease.String(),
		"poll_interval", c.pollInterval.String(), "start_timeout", c.startTimeout.String(), "drain_timeout", c.drainTimeout.String(),
		"max_watches", c.maxWatches, "listen", c.listen, "durable_commits", string(c.durable), "admin_addr", c.adminAddr,
		"callback_url", c.callbackURL, "callback_addr", c.callbackAddr)

	callbacks, err := listenCallbacks(ctx, c)
	if err != nil {
		return err
	}
	forClaims, forOthers := poolSettings(c)
	claims, err := openPool(ctx, c, claimConnections, forClaims)
	if err != nil {
		return err
	}
	defer claims.Close()
	others, err := openPool(ctx, c, otherConnections, forOthers)
	if err != nil {
		return err
	}
	defer others.Close()
	if err := awaitSchema(ctx, claims, log); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	r := &replica{config: c, log: log, wake: make(chan string, 1), stopWake: make(chan struct{}, 1)}
	r.pulse = telemetry.NewPulse(t)
	store := &claim.Store{Pool: claims, Async: others, Owner: owner, Lease: c.lease, Namespace: namespace}
	r.store = r.pulse.Store(store)
	r.ends = complete.NewEnds(r.store)
	service := temporal.WorkflowService()
	starter := &dispatch.TemporalStarter{Service: service, Namespace: namespace, Identity: owner}
	waiter := &complete.TemporalWaiter{Service: service, Namespace: namespace}
	if callbacks != nil {
		starter.Callback, err = r.receive(ctx, callbacks, waiter, t)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.wire(t.Starter(starter, outcomeName), waiter, t)
	if callbacks == nil { // callbacks need no long poll, so no limit applies
		store.CanWatch = r.watcher.HasRoom
	}
	r.dispatch.Dispatched = r.dispatched(starter.Callback)
	if err := r.observe(t, health, others); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { health.Waiting("stopping: nothing more is claimed") })()
	failpoints(r)
	return r.run(ctx)
}

// wire creates the parts and connects them. They depend on each other only through what is set here.
func (r *replica) wire(starter dispatch.Starter, waiter *complete.TemporalWaiter, t *telemetry.Telemetry) {
	component := func(name string) *slog.Logger { return r.log.With("component", name) }
	r.reach = &complete.Reach{Probe: waiter.Probe, Limit: min(r.lease/2, reachLimit), Log: component("watcher")}
	r.watcher = &complete.Watcher{
		Store: together{r.store, r.ends}, Waiter: telemetry.NewWaiter(t, waiter), MaxWatches: r.maxWatches, Grace: watchGrace,
		Reached: r.reach.Reached,
		Freed:   r.ended(t, "watch"), Log: component("watcher"),
	}
	r.reconcile = &complete.Reconciler{
		Store: together{r.store, r.ends}, Temporal: waiter, Interval: closeInterval, Reached: r.reach.Reached,
		Open: func() (open, unwatched bool) {
			wants := r.watcher.Wants()
			return r.open.Load() || wants, r.unwatched.Load() || wants
		},
		Freed: r.ended(t, "sweep"), Log: component("reconciler"),
	}
	r.stopper = &complete.Stopper{Store: r.store, Temporal: waiter, Wake: r.stopWake, Log: component("stopper")}
	r.detector = &complete.Detector{
		Store: r.store, Temporal: waiter, Interval: stallInterval, Age: stallAge,
		Wanted: func() bool { return r.open.Load() && r.reach.Reached() }, Log: component("detector"),
	}
	r.dispatch = &dispatch.Dispatcher{
		Store: r.store, Starter: starter, Workers: r.workers, Lease: r.lease,
		StartTimeout: r.startTimeout, DrainTimeout: r.drainTimeout,
		Wake: r.wake, Hints: &r.hints, Namespaces: r.namespacesInUse, Reached: r.reach.Reached, Observer: r.pulse, Log: component("dispatcher"),
	}
	r.sweeper = &sweeper.Sweeper{
		Store: r.store, Interval: r.pollInterval, Lease: r.lease,
		Found: func() { r.ring("sweeper") }, Saw: r.saw, Log: component("sweeper"),
	}
	r.retention = &sweeper.Retention{Store: r.store, Interval: retentionInterval, Wanted: r.deletes.Load, Log: component("retention")}
	if r.listen {
		r.gate = &notify.Gate{
			Connect: dialGate(r.config), Interval: r.pollInterval,
			Shutting: func() { r.ring("gate") }, Log: component("gate"),
		}
		r.dispatch.Gate = r.gate
		r.listener = &notify.Listener{
			Connect: dialListener(r.config), Ring: r.notified,
			Called: func() { r.gate.Called(); r.ring("call") }, Stopping: r.stopping,
			Ping: r.store, PingInterval: pingInterval, PingTimeout: hearTimeout, Name: r.store.Owner, Log: component("listener"),
		}
	}
}

// saw passes the results of a sweep to the parts, so that they need no queries of their own.
func (r *replica) saw(swept claim.Swept) {
	r.ring(dispatch.WakePoll) // cheap, so every poll triggers a claim
	r.open.Store(swept.Open > 0)
	r.unwatched.Store(swept.Unwatched)
	r.deletes.Store(swept.Deletes)
	if swept.Stops {
		r.stopping()
	}
	r.sawNamespaces(swept.Namespaces)
	// If the table assigns more executions to this replica than it knows of, the answer to a settle was lost.
	r.watcher.Unwatched(swept.Unwatched || swept.Mine > r.watcher.Watching())
}

// sawNamespaces stores the namespaces that definitions use. An empty name stands for this replica's namespace.
func (r *replica) sawNamespaces(named []string) {
	inUse := make([]string, 0, len(named))
	for _, name := range named {
		if name = cmp.Or(name, r.store.Namespace); !slices.Contains(inUse, name) {
			inUse = append(inUse, name)
		}
	}
	r.namespaces.Store(&inUse)
}

func (r *replica) namespacesInUse() []string {
	if inUse := r.namespaces.Load(); inUse != nil {
		return *inUse
	}
	return nil
}

// notified wakes the dispatcher if this replica is on duty. One insert should cost one claim, regardless of the number
// of replicas.
func (r *replica) notified(payload string) {
	if r.gate.OnDuty() {
		r.hints.Add(payload)
		r.ring(dispatch.WakeNotification)
	}
}

// stopping wakes the stopper.
func (r *replica) stopping() {
	select {
	case r.stopWake <- struct{}{}:
	default:
	}
}

// ring wakes the dispatcher. Wake-ups are merged while one is pending.
func (r *replica) ring(source string) {
	select {
	case r.wake <- source:
	default:
	}
}

// run runs the parts until ctx is cancelled or a part fails, then stops them in order.
func (r *replica) run(ctx context.Context) error {
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	intake, stopIntake := context.WithCancel(ctx)
	defer stopIntake()

	var g errgroup.Group
	background := func(part func(context.Context) error) {
		g.Go(func() error {
			err := contained(parts, r.log, part)
			if err != nil {
				stopIntake() // shut down in order if a part fails
			}
			return err
		})
	}
	background(r.sweeper.Run)
	background(r.retention.Run)
	background(r.ends.Run)
	background(r.reach.Run)
	background(r.watcher.Run)
	background(r.reconcile.Run)
	background(r.stopper.Run)
	background(r.detector.Run)
	background(r.presence)
	if r.listener != nil {
		background(r.listener.Run)
		background(r.gate.Run)
	}
	if r.callbacks != nil {
		background(r.callbacks.Run)
	}

	// 1. Stop claiming. Hand-overs in progress finish, and their leases are still renewed.
	err := r.dispatch.Run(intake)
	r.log.Info("Stopping")
	// 2. Stop the other parts. Other replicas continue their work.
	stop()
	err = errors.Join(err, g.Wait())
	// 3. Release what the database still holds under this replica's name.
	r.farewell(context.WithoutCancel(ctx))
	r.log.Info("Stopped")
	return err
}

// contained runs a part and turns a panic into an error, so that the replica shuts down in order instead of running
// without the part.
func contained(ctx context.Context, log *slog.Logger, part func(context.Context) error) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			log.Error("Panic: this replica ends", "panic", claim.Clean(fmt.Sprint(recovered)), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", recovered)
		}
	}()
	return part(ctx)
}

func (r *replica) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, farewellTimeout, fmt.Errorf("farewell gave up after %s", farewellTimeout))
	defer cancel()
	r.noteStarts(ctx)
	released, err := r.store.ReleaseOwned(ctx)
	if released > 0 {
		r.log.Warn("Released queue items whose claim was never answered", "items", released)
	}
	if err = errors.Join(err, r.store.Gone(ctx)); err != nil {
		r.log.Warn("Cannot say farewell: what is left expires by itself", "error", err)
	}
}

// awaitSchema waits until the database answers, and checks that it has the schema that this binary needs.
func awaitSchema(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	complained := false
	backoff := retry.WithCappedDuration(2*time.Second, retry.NewExponential(50*time.Millisecond))
	return retry.Do(ctx, backoff, func(ctx context.Context) error {
		conn, err := pool.Acquire(ctx)
		var postgres *pgconn.PgError
		if errors.As(err, &postgres) && postgres.Code == "08P01" { // protocol_violation: PgBouncer refuses a setting
			return fmt.Errorf("connect to Postgres: %w: is there a transaction pooler between? Set PGDISPATCH_LISTEN=off, or connect directly", redact(err))
		}
		if err != nil {
			if !complained && ctx.Err() == nil {
				complained = true
				log.Error("Waiting for Postgres", "error", redact(claim.WithRemedy(err)))
			}
			return retry.RetryableError(err)
		}
		defer conn.Release()
		state, err := migrate.Status(ctx, conn.Conn())
		switch {
		case err != nil:
			return retry.RetryableError(err)
		case state.Current < state.Newest:
			return schemaTooOld(state)
		case state.Current > state.Newest:
			log.Warn("The schema is newer than this pgdispatch", "schema", state.Current, "known", state.Newest)
		}
		return nil
	})
}

// replicaName returns a name that is unique among replicas and valid as a notification channel.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	host = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(host), "_")
	return fmt.Sprintf("%.20s_%d_%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}
