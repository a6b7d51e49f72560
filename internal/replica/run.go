// Package replica is one process of pgdispatch: it opens the connections, wires the parts together, runs them and stops
// them in order.
package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/internal/admin"
	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/logging"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/request"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

const (
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
	// presenceInterval is how often a replica renews its presence and reports its state while nothing is started. It is
	// capped at a third of the lease.
	presenceInterval = 10 * time.Second
	// deregisterTimeout limits the final database calls of a stopping replica.
	deregisterTimeout = 3 * time.Second
)

// replica holds all parts of a replica.
type replica struct {
	config.Config
	name      string
	version   string
	namespace string        // of definitions that name none
	database  *pgxpool.Pool // for all but claims
	claims    *claim.Store
	store     *complete.Postgres
	telemetry *telemetry.Telemetry
	log       *slog.Logger
	answered  func() // Postgres has answered a statement
	wake      dispatch.Wakeups
	stopWake  chan struct{}
	sweepWake chan struct{}
	dispatch  *dispatch.Dispatcher
	ends      *complete.Ends
	temporal  *temporal.Client
	reach     *complete.Reach
	watcher   *complete.Watcher
	reconcile *complete.Reconciler
	stopper   *request.Stopper
	signaler  *request.Signaler
	detector  *sweeper.Detector
	sweeper   *sweeper.Sweeper
	retention *sweeper.Retention
	listener  *notify.Listener    // nil if PGDISPATCH_LISTEN=off
	gate      *notify.Gate        // nil if PGDISPATCH_LISTEN=off
	callbacks *complete.Callbacks // nil if no callback URL is configured
	codec     *temporal.Codec     // nil if no codec server is configured
	admin     atomic.Pointer[admin.Server]
	upkeep    upkeep
	renew     atomic.Pointer[func()] // closes the pools' connections, so that others are opened

	// Results of the last sweep.
	open, unwatched, deletes, announces atomic.Bool
	namespaces                          atomic.Pointer[[]string]
	vanished                            atomic.Pointer[[]string]
}

// Run runs a replica until ctx is cancelled, then lets hand-overs in progress finish. version is that of the binary.
// reloads may be nil.
func Run(ctx context.Context, c config.Loaded, version string, log *slog.Logger, reloads *Reloads) error {
	collectByHeap()
	r := &replica{Config: c.Config, name: replicaName(), version: version,
		stopWake: make(chan struct{}, 1), sweepWake: make(chan struct{}, 1)}
	r.Database.Primary = &postgres.Primary{}
	outages := logging.NewOutages(log.With("replica", r.name).Handler())
	r.answered = func() { outages.Answered(ctx) }
	r.log = slog.New(outages)
	if reloads != nil {
		ended := r.reload(ctx, c, *reloads)
		defer ended()
	}
	return r.observed(ctx, r.start)
}

// logSettings logs what the replica runs with, without secrets.
func (r *replica) logSettings() {
	c := r.Config
	r.log.Info("Starting", "version", r.version, "database", c.Database.Server(), "temporal_address",
		c.Temporal.HostPort(),
		"namespace", r.namespace, "codec_endpoint", c.Codec.Endpoint, "workers", c.Workers, "lease", c.Lease.String(),
		"poll_interval", c.PollInterval.String(),
		"start_timeout", c.StartTimeout.String(), "drain_timeout", c.DrainTimeout.String(), "max_watches", c.MaxWatches,
		"listen", c.Listen, "durable_commits", string(c.Durable), "admin_addr", c.AdminAddr,
		"callback_url", c.CallbackURL, "callback_addr", c.CallbackAddr)
}

// start opens the connections and runs the replica. Its telemetry is set up.
func (r *replica) start(ctx context.Context, health *admin.Health) error {
	c, log := r.Config, r.log
	connection, namespace, err := c.Temporal.Dial(log)
	if err != nil {
		return err
	}
	defer connection.Close()
	r.namespace = namespace
	r.logSettings()
	callbacks, err := listenCallbacks(ctx, c)
	if err != nil {
		return err
	}
	forClaims, forOthers := poolSettings(c)
	claims, err := c.Database.OpenPool(ctx, config.ClaimConnections, forClaims)
	if err != nil {
		return err
	}
	defer claims.Close()
	r.database, err = c.Database.OpenPool(ctx, config.OtherConnections, forOthers)
	if err != nil {
		return err
	}
	defer r.database.Close()
	r.renews(claims, r.database)
	err = awaitSchema(ctx, claims, log)
	if err == nil {
		err = awaitFitness(ctx, r.database, health.Waiting, log)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	r.claims = &claim.Store{Pool: claims, Async: r.database, Owner: r.name, Lease: c.Lease, Namespace: namespace}
	r.store = &complete.Postgres{DB: r.database, Owner: r.name, Namespace: namespace}
	r.ends = complete.NewEnds(r.store, r.telemetry.Finished)
	client := &temporal.Client{Service: connection.WorkflowService(), Namespace: namespace, Identity: r.name}
	if client.Codec, err = r.openCodec(); err != nil {
		return err
	}
	if callbacks != nil {
		client.Callback, err = r.receive(ctx, callbacks, client)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.wire(client)
	if callbacks == nil { // callbacks need no long poll, so no limit applies
		r.claims.CanWatch = r.watcher.HasRoom
	}
	r.dispatch.Dispatched = r.dispatched(client.Callback)
	if err := r.observe(health); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { health.Waiting("stopping: no more items are claimed") })()
	failpoints(r)
	return r.run(ctx)
}

// openCodec returns the codec, or nil if no codec server is configured.
func (r *replica) openCodec() (codec *temporal.Codec, err error) {
	if codec, err = r.Codec.Open(r.log.With("component", "codec")); codec != nil {
		codec.Saw = r.telemetry.Coded
	}
	r.codec = codec
	return codec, err
}

// wire creates the parts and connects them. They depend on each other only through what is set here.
func (r *replica) wire(client *temporal.Client) {
	component := func(name string) *slog.Logger { return r.log.With("component", name) }
	r.temporal = client
	r.reach = &complete.Reach{Probe: client.Probe, Limit: min(r.Lease/2, reachLimit),
		Found: func() { r.wake.Ring("resume") }, Log: component("watcher")}
	r.telemetry.Away = r.reach.Away
	missing := &complete.Missing{Store: r.store, Temporal: client, Log: component("watcher")}
	r.watcher = &complete.Watcher{
		Store: r.store, Ends: r.ends, Waiter: client, Missing: missing, MaxWatches: r.MaxWatches, Grace: watchGrace,
		Reached: r.reach.Reached,
		Freed:   r.ended("watch"), Log: component("watcher"),
		Adopted: func(executions int, err error) {
			r.telemetry.Adopted(executions, err)
			r.upkeep.adoptedWith(err)
		},
	}
	r.ends.MayWait, r.claims.Full = r.mayWait, r.ends.Hurry
	r.reconcile = &complete.Reconciler{
		Store: r.store, Ends: r.ends, Temporal: client, Missing: missing, Interval: closeInterval, Reached: r.reach.Reached,
		Open: func() (open, unwatched bool) {
			wants := r.watcher.Wants()
			return r.open.Load() || wants, r.unwatched.Load() || wants
		},
		Freed: r.ended("sweep"), Log: component("reconciler"),
	}
	requests := &request.Postgres{DB: r.database}
	r.stopper = &request.Stopper{Store: requests, Temporal: client, Wake: r.stopWake, Log: component("stopper")}
	r.signaler = &request.Signaler{Store: requests, Temporal: client, Reached: r.reach.Reached,
		Wake: make(chan struct{}, 1), Saw: r.telemetry.Signalled, Log: component("signaler")}
	r.dispatch = &dispatch.Dispatcher{
		Store: r.claims, Starter: starter{client}, Workers: r.Workers, Lease: r.Lease,
		StartTimeout: r.StartTimeout, DrainTimeout: r.DrainTimeout,
		Wake: &r.wake, Namespaces: r.namespacesInUse, Reached: r.reach.Reached, Answered: r.reach.Answered,
		RefusedNamespace: r.refusedNamespace, Vanished: r.vanishedNamespaces, Observer: r.telemetry,
		Log: component("dispatcher"),
	}
	sweeps := &sweeper.Postgres{DB: r.database, Owner: r.name}
	r.claims.SetBack = func() { poke(r.sweepWake) }
	r.sweeper = &sweeper.Sweeper{
		Store: sweeps, Interval: r.PollInterval, Lease: r.Lease, Wake: r.sweepWake,
		Found: func() { r.wake.Ring("sweeper") }, Saw: r.saw, Failing: r.upkeep.sweptWith, Log: component("sweeper"),
	}
	r.retention = &sweeper.Retention{Store: sweeps, Interval: retentionInterval, Wanted: r.deletes.Load,
		Deleted: r.telemetry.Deleted, Log: component("retention")}
	r.detector = &sweeper.Detector{
		Store: sweeps, Temporal: client, Interval: stallInterval, Age: stallAge,
		Wanted: func() bool { return r.open.Load() && r.reach.Reached() }, Log: component("detector"),
	}
	if r.Listen {
		r.gate = &notify.Gate{
			Connect: dialGate(r.Database), Interval: r.PollInterval,
			Shutting: func() { r.wake.Ring("gate") }, Log: component("gate"),
		}
		r.dispatch.Gate = r.gate
		r.listener = &notify.Listener{
			Connect: dialListener(r.Database), Ring: r.notified,
			Called: func() { r.gate.Called(); r.wake.Ring("call") }, Stopping: r.stopping, Late: func() { poke(r.sweepWake) },
			Signalled: func() { r.signaler.Announced(r.gate.OnDuty()) },
			Ping:      &notify.PoolPinger{DB: r.database}, PingInterval: pingInterval, PingTimeout: hearTimeout, Name: r.name,
			Log: component("listener"),
		}
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
	background(r.signaler.Run)
	background(r.detector.Run)
	background(r.presence)
	background(func(ctx context.Context) error { return stayFit(ctx, r.database, fitnessInterval, r.log) })
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
	r.deregister(context.WithoutCancel(ctx))
	r.log.Info("Stopped")
	return err
}

// contained runs a part and turns a panic into an error, so that the replica shuts down in order instead of running
// without the part.
func contained(ctx context.Context, log *slog.Logger, part func(context.Context) error) error {
	err := attempt.Contain(ctx, part)
	var panicked *attempt.PanicError
	if errors.As(err, &panicked) {
		log.Error("Panic: shutting down this replica", "panic", postgres.Clean(fmt.Sprint(panicked.Value)), "stack",
			panicked.Stack)
	}
	return err
}

func (r *replica) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, deregisterTimeout,
		fmt.Errorf("deregistration timed out after %s", deregisterTimeout))
	defer cancel()
	r.noteStarts(ctx)
	released, err := r.releaseOwned(ctx)
	if released > 0 {
		r.log.Warn("Released queue items of unanswered claims", "items", released)
	}
	if err = errors.Join(err, r.gone(ctx)); err != nil {
		r.log.Warn("Cannot deregister replica; its leases will expire", "error", err)
	}
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
