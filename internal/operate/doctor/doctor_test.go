package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/pgdispatch/pgdispatch/internal/codectest"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestDoctorLooksAtRetentionConservatively(t *testing.T) {
	t.Parallel()
	three, hundred := []operate.TaskQueue{{MaxAttempts: 1}, {MaxAttempts: 3}}, []operate.TaskQueue{{MaxAttempts: 100}}
	for _, row := range []struct {
		keeps  time.Duration
		queues []operate.TaskQueue
		want   Severity
	}{
		{72 * time.Hour, three, Fine}, {24 * time.Hour, three, Fine}, {23 * time.Hour, three, Warning},
		{17 * time.Minute, three, Problem},
		{24 * time.Hour, hundred, Fine}, {19 * time.Hour, hundred, Warning}, {9 * time.Hour, hundred, Problem},
		{72 * time.Hour, nil, Fine},
		{0, three, Unknown},
	} {
		require.Equal(t, row.want, checkRetention(row.keeps, row.queues).Severity, "%s", row.keeps)
	}
}

func TestDoctorJudgesServers(t *testing.T) {
	t.Parallel()
	good := func() operate.Server {
		return operate.Server{Version: 160004, VersionText: "16.4", Encoding: "UTF8", Role: "app", SeesAll: true,
			Connections: 10, ConnectionsAllowed: 97,
			Settings: map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on",
				"track_counts":      "on",
				"statement_timeout": "0", "lock_timeout": "0", "idle_session_timeout": "0", "default_transaction_read_only": "off",
				"session_replication_role": "origin"}}
	}
	for _, f := range checkServer(good()) {
		require.Equal(t, Fine, f.Severity, "%v", f)
	}
	setting := func(name, value string) func(*operate.Server) {
		return func(s *operate.Server) { s.Settings[name] = value }
	}
	for _, row := range []struct {
		check   string
		want    Severity
		finding string
		ail     func(*operate.Server)
	}{
		{"postgres version", Fine, "15.1", func(s *operate.Server) { s.Version, s.VersionText = 150001, "15.1" }},
		{"postgres version", Warning, "19beta1", func(s *operate.Server) { s.Version, s.VersionText = 190000, "19beta1" }},
		{"encoding", Problem, "the database's encoding is LATIN1", func(s *operate.Server) { s.Encoding = "LATIN1" }},
		{"durability", Problem, "fsync off", setting("fsync", "off")},
		{"durability", Problem, "full_page_writes off", setting("full_page_writes", "off")},
		{"synchronous_commit", Warning, "synchronous_commit is off by default", setting("synchronous_commit", "off")},
		{"autovacuum", Problem, "autovacuum off", setting("autovacuum", "off")},
		{"autovacuum", Problem, "track_counts off", setting("track_counts", "off")},
		{"timeouts", Warning, "role app: statement_timeout is 9s", setting("statement_timeout", "9000")},
		{"timeouts", Fine, "role app has no timeouts that would abort a replica's statements",
			setting("statement_timeout", "10000")},
		{"timeouts", Warning, "role app: lock_timeout is 100ms", setting("lock_timeout", "100")},
		{"timeouts", Warning, "role app: idle_session_timeout is 1h0m0s", setting("idle_session_timeout", "3600000")},
		{"timeouts", Warning, "role app: transaction_timeout is 1s", setting("transaction_timeout", "1000")},
		{"transactions", Problem, "default_transaction_read_only is on", setting("default_transaction_read_only", "on")},
		{"transactions", Problem, "session_replication_role is replica", setting("session_replication_role", "replica")},
		{"connections", Warning, "86 of 97 are in use", func(s *operate.Server) { s.Connections = 86 }},
		{"connections", Fine, "85 of 97 are in use", func(s *operate.Server) { s.Connections = 85 }},
		{"connections", Warning, "10 of 97 are in use; 9 of 20 are in use by role app",
			func(s *operate.Server) { s.RoleAllowed, s.RoleConnections = new(20), 9 }},
		{"connections", Warning, "10 of 97 are in use; 9 of 20 are in use in the database",
			func(s *operate.Server) { s.DatabaseAllowed, s.DatabaseConnections = new(20), 9 }},
		{"notification queue", Fine, "9 % full", func(s *operate.Server) { s.NotifyUsage = 0.09 }},
		{"notification queue", Warning, "10 % full", func(s *operate.Server) { s.NotifyUsage = 0.1 }},
		{"notification queue", Problem, "60 % full", func(s *operate.Server) { s.NotifyUsage = 0.6 }},
	} {
		server := good()
		row.ail(&server)
		for _, f := range checkServer(server) {
			if f.Check == row.check {
				require.Equal(t, row.want, f.Severity, row.finding)
				require.Equal(t, row.finding, f.Finding)
			} else {
				require.Equal(t, Fine, f.Severity, "%s is unrelated to %v", row.finding, f)
			}
		}
	}
}

func TestDoctorJudgesWhetherReplicasMayWork(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	fit := []operate.Fitness{{Role: "app", TriggersFire: true, BoundTo: "shop", BoundAt: &at}}
	require.Equal(t, ok("row security", "role app sees every row"), checkRowSecurity(fit))
	require.Equal(t, ok("installation", "used by replicas since 2026-08-01 10:00:00"), checkInstallation(fit))
	require.Equal(t, ok("installation", "no replica has used it yet"), checkInstallation([]operate.Fitness{{}}))
	hidden := checkRowSecurity([]operate.Fitness{{Role: "app", Hidden: []string{"limits", "marks"}}})
	require.Equal(t, Problem, hidden.Severity)
	require.Equal(t, "row level security may hide rows from role app: limits; marks", hidden.Finding)
	copied := checkInstallation([]operate.Fitness{{Copied: true, BoundTo: "shop", BoundAt: &at}})
	require.Equal(t, Problem, copied.Severity)
	require.Contains(t, copied.Remedy, "`pgdispatch migrate adopt`")
}

func TestDoctorJudgesClocksReplicasAndSchemas(t *testing.T) {
	t.Parallel()
	require.Equal(t, Fine, checkClock(2100*time.Millisecond, 100*time.Millisecond).Severity,
		"as exact as the round trip allows")
	require.Equal(t, "the database's clock differs by 12ms from this machine's, measured to within 3ms",
		checkClock(12*time.Millisecond, 3*time.Millisecond).Finding)
	require.Equal(t, "the database's clock differs by -3s from this machine's", checkClock(-3*time.Second, 0).Finding)
	require.Equal(t, Fine, checkReplicas([]operate.KnownReplica{{ID: "a", DeadFor: -time.Second}}).Severity)
	require.Equal(t, "replicas use different namespaces: shop; default", checkReplicas([]operate.KnownReplica{
		{ID: "a", DeadFor: -time.Second, Namespace: "shop"}, {ID: "b", DeadFor: -time.Second, Namespace: "default"},
		{ID: "old", DeadFor: -time.Second}, {ID: "dead", DeadFor: time.Second, Namespace: "third"}}).Finding)
	require.Equal(t, "1 run; b died 1m0s ago and holds 2 items and 3 watches",
		checkReplicas(
			[]operate.KnownReplica{{ID: "a", DeadFor: -time.Second},
				{ID: "b", DeadFor: time.Minute, Leased: 2, Watching: 3}}).Finding)
	require.Equal(t, Problem, checkSchema(migrate.State{Current: 0, Newest: 7}).Severity)
	require.Equal(t, Problem, checkSchema(migrate.State{Current: 6, Newest: 7}).Severity)
	require.Equal(t, Warning, checkSchema(migrate.State{Current: 8, Newest: 7}).Severity)
	require.Equal(t, Warning, checkSchema(migrate.State{Current: 7, Newest: 7, Outdated: []string{"claim"}}).Severity)
	require.Contains(t, checkSchema(migrate.State{Newest: 1, BeforeBaseline: 15}).Remedy, "drop schema")
	hour := time.Hour
	require.Equal(t, Unknown, checkPins(nil, false).Severity)
	require.Equal(t, "prepared transaction a (app), for 1h0m0s; replication slot b (logical), for an unknown time",
		checkPins(
			[]operate.Pin{{Kind: "prepared transaction", Name: "a", Detail: "app", Age: &hour},
				{Kind: "replication slot", Name: "b", Detail: "logical"}}, true).Finding)
}

func TestDoctorSaysHowToRepairEachObjectOfTheSchema(t *testing.T) {
	t.Parallel()
	require.Equal(t, Fine, checkObjects(nil).Severity)
	lost := checkObjects([]operate.SchemaDefect{{Kind: "table", Name: "marks", Problem: "without autovacuum"},
		{Kind: "setting", Name: "rates.fillfactor", Definition: "50", Problem: "missing"}})
	require.Equal(t, Finding{"schema objects", Warning,
		"table marks is without autovacuum; setting rates.fillfactor is missing", slowVacuum,
		"Repair by hand: alter table pgdispatch.marks reset (autovacuum_enabled); " +
			"alter table pgdispatch.rates set (fillfactor = 50)."}, lost)
	for _, o := range []operate.SchemaDefect{{Kind: "trigger", Name: "limits.refuse_value", Problem: "disabled"},
		{Kind: "function", Name: "claim()", Problem: "altered"}, {Kind: "index", Name: "i", Problem: "invalid"}} {
		found := checkObjects([]operate.SchemaDefect{o})
		require.Equal(t, Problem, found.Severity)
		require.Equal(t, "Run `pgdispatch migrate up`, which makes missing indexes, triggers and functions anew, and "+
			"restores defaults.", found.Remedy)
	}
	for want, o := range map[string]operate.SchemaDefect{
		"alter table pgdispatch.limits add constraint c CHECK (true)": {Kind: "constraint", Name: "limits.c",
			Definition: "CHECK (true)", Problem: "missing"},
		"drop index concurrently if exists pgdispatch.i; CREATE INDEX CONCURRENTLY i ON pgdispatch.limits (key)": {
			Kind: "index", Name: "i", Definition: "CREATE INDEX i ON pgdispatch.limits (key)", Problem: "altered"},
		"alter table pgdispatch.epoch set unlogged": {Kind: "table", Name: "epoch", Definition: "unlogged",
			Problem: "altered"},
		"alter table pgdispatch.marks set logged":   {Kind: "table", Name: "marks", Problem: "altered"},
		"alter sequence pgdispatch.gate set logged": {Kind: "sequence", Name: "gate", Problem: "unlogged"},
		"restore sequence gate 1 to 2": {Kind: "sequence", Name: "gate", Definition: "1 to 2",
			Problem: "missing"},
		"restore table marks":            {Kind: "table", Name: "marks", Problem: "missing"},
		"restore column marks.id bigint": {Kind: "column", Name: "marks.id", Definition: "bigint", Problem: "missing"},
	} {
		found := checkObjects([]operate.SchemaDefect{o})
		require.Equal(t, Problem, found.Severity, want)
		require.Equal(t, "Repair by hand: "+want+".", found.Remedy)
	}
}

func TestDoctorSeesWhetherTheCallbackURLLeadsToAReplica(t *testing.T) {
	t.Parallel()
	require.Empty(t, checkCallbackURL(t.Context(), config.Config{}), "callbacks are off")
	for status, want := range map[int]Severity{http.StatusUnauthorized: Fine, http.StatusOK: Warning,
		http.StatusBadGateway: Warning} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		found := checkCallbackURL(t.Context(), config.Config{CallbackURL: server.URL})
		server.Close()
		require.Len(t, found, 1)
		require.Equal(t, want, found[0].Severity, "%d: %s", status, found[0].Finding)
	}
	found := checkCallbackURL(t.Context(), config.Config{CallbackURL: "http://127.0.0.1:1"})
	require.Equal(t, Warning, found[0].Severity, "the address has no listener")
}

// Notifications do not cross databases, so this listener receives none, as behind a transaction pooler.
func TestDoctorSaysThatLISTENDoesNotDeliver(t *testing.T) {
	t.Parallel()
	f := checkListen(t.Context(), config.Config{Database: postgres.Target{URL: sqltest.URL(t)}, Listen: true},
		&operate.Store{DB: sqltest.Open(t)})
	require.Equal(t, Problem, f.Severity)
	require.Equal(t, "no notification arrived within 3s", f.Finding)
	require.Contains(t, f.Remedy, "PGDISPATCH_LISTEN=off")
}

func TestMain(m *testing.M) { sqltest.Main(m) }

func TestDoctorFindsASignalThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	young, old := time.Second, 2*time.Minute
	require.Equal(t, Fine, checkSignals([]operate.Depth{{}}).Severity)
	require.Equal(t, Fine, checkSignals([]operate.Depth{{Signals: 3, OldestSignal: &young}}).Severity)
	found := checkSignals([]operate.Depth{{Signals: 3, OldestSignal: &old}})
	require.Equal(t, Warning, found.Severity)
	require.Contains(t, found.Finding, "3 undelivered, the oldest for 2")
}

func TestDoctor_NamesTheHostsIfSeveralAcceptWrites(t *testing.T) {
	t.Parallel()
	require.Equal(t, Fine, checkPrimaries([]string{"one:5432"}, nil).Severity)
	found := checkPrimaries([]string{"one:5432", "two:5432"}, nil)
	require.Equal(t, Problem, found.Severity)
	require.Contains(t, found.Finding, "one:5432 and two:5432")
	require.Equal(t, Unknown, checkPrimaries(nil, errors.New("no such host")).Severity)
}

func TestDoctorJudgesTheCodecServer(t *testing.T) {
	t.Parallel()
	server := codectest.NewServer(false)
	t.Cleanup(server.Close)
	check := func(endpoint, tokenFile string, fails func(codectest.Call) int) Finding {
		server.Fail(fails)
		found := checkCodec(t.Context(),
			config.Config{Codec: temporal.CodecTarget{Endpoint: endpoint, TokenFile: tokenFile}}, "shop")
		require.Len(t, found, 1)
		require.Equal(t, "codec", found[0].Check)
		require.Equal(t, found[0].Severity == Fine, found[0].Remedy == "")
		return found[0]
	}
	require.Equal(t, ok("codec", "%s encodes and decodes", server.URL), check(server.URL, "", nil))

	unauthorized := check(server.URL, "", func(codectest.Call) int { return http.StatusUnauthorized })
	require.Equal(t, Problem, unauthorized.Severity)
	require.Contains(t, unauthorized.Finding, server.URL+": encode: it answers 401 Unauthorized")
	require.Contains(t, unauthorized.Remedy, "PGDISPATCH_CODEC_TOKEN_FILE")

	encodesOnly := check(server.URL, "", func(call codectest.Call) int {
		if call.Operation == "decode" {
			return http.StatusForbidden
		}
		return 0
	})
	require.Equal(t, Warning, encodesOnly.Severity)
	require.Contains(t, encodesOnly.Meaning, "not kept")

	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = r.Write(w) }))
	t.Cleanup(echo.Close)
	require.Equal(t, Problem, check(echo.URL, "", nil).Severity, "it answers with a request")
	transparent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"payloads":[{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"InBnZGlzcGF0Y2gi"}]}`))
	}))
	t.Cleanup(transparent.Close)
	require.Contains(t, check(transparent.URL, "", nil).Finding, "returns a payload as it is")

	require.Contains(t, check(server.URL, "/nowhere", nil).Finding, `PGDISPATCH_CODEC_TOKEN_FILE is "/nowhere"`)
}

// Not parallel: Temporal's own configuration comes from the process's environment.
func TestDoctorFindsACodecServerThatOnlyTemporalsConfigurationNames(t *testing.T) {
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "https://codec.example.com")
	found := checkCodec(t.Context(), config.Config{}, "shop")
	require.Len(t, found, 1)
	require.Equal(t, Warning, found[0].Severity)
	require.Contains(t, found[0].Finding, "https://codec.example.com")
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "")
	require.Empty(t, checkCodec(t.Context(), config.Config{}, "shop"))
}

func TestDoctorSaysSinceWhenAndWhyNothingIsStarted(t *testing.T) {
	t.Parallel()
	state := operate.ReplicaState{Codec: "0a", BreakerOpen: true, BreakerSince: new(time.Unix(0, 0)),
		BreakerCause: "probe timed out after 3s"}
	away := state
	away.CodecAway, away.BreakerCause = true, "codec server http://codec: refused"
	for want, states := range map[string][]operate.ReplicaState{
		"Temporal accepts no workflows from any replica (probe timed out after 3s): starts are paused, and the replicas " +
			"probe. Since 1970-01-01 00:00:00 UTC.": {state},
		"The codec server does not answer any replica, so nothing is sent to Temporal (codec server http://codec: " +
			"refused): starts are paused, and the replicas probe. Since 1970-01-01 00:00:00 UTC.": {away},
		"the replicas use 2 different codec endpoints": {{Codec: "0a"}, {}},
		"no replica reports one":                       {{Codec: "0a"}, {Codec: "0a"}},
	} {
		replicas := []operate.Replica{}
		for _, s := range states {
			replicas = append(replicas, operate.Replica{State: s})
		}
		require.Equal(t, want, checkOutage(replicas).Finding)
	}
}

// describing is a Temporal that answers all descriptions of activities with err.
type describing struct {
	workflowservice.WorkflowServiceClient
	err error
}

func (d describing) DescribeActivityExecution(context.Context, *workflowservice.DescribeActivityExecutionRequest,
	...grpc.CallOption) (*workflowservice.DescribeActivityExecutionResponse, error) {
	return nil, d.err
}

func TestDoctorSaysWhetherTemporalStartsActivitiesOrWhyItCannotTell(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		answer   error
		severity Severity
		remedy   string
	}{
		"Temporal 1.31.2 starts them": {serviceerror.NewNotFound("activity not found"), Fine, ""},
		"Temporal 1.31.2 starts none": {serviceerror.NewUnimplemented("unknown method DescribeActivityExecution"), Problem,
			"Upgrade or configure Temporal: standalone activities need Temporal 1.32 or newer"},
		"Request unauthorized.": {serviceerror.NewPermissionDenied("Request unauthorized.", ""), Unknown,
			"Allow the API key or certificate to describe activities."},
	} {
		found := checkActivities(t.Context(), describing{err: c.answer}, "shop", "1.31.2")
		require.Contains(t, found.Finding, want)
		require.Equal(t, c.severity, found.Severity, want)
		require.Contains(t, found.Remedy, c.remedy, want)
	}
}
