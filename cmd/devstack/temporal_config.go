package main

import (
	"math/rand/v2"
	"strconv"
	"time"

	"go.temporal.io/server/chasm/lib/callback"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
)

const (
	// storeName is the only data store: SQLite holds executions and visibility.
	storeName = sqliteplugin.PluginName
	// historyShards is the number of shards of the only history host.
	historyShards = 4
	// clusterName is the name of the only cluster.
	clusterName = "active"
	// unlimited is a rate per second that one machine does not reach.
	unlimited = 1_000_000
)

// ports are the addresses of the server's four services.
type ports struct {
	frontend, history, matching, worker endpoint
}

// choosePorts uses the given frontend address and free ports for the other services.
func choosePorts(frontend string) (ports, error) {
	var p ports
	var err error
	if p.frontend, err = parseEndpoint(frontend); err != nil {
		return ports{}, err
	}
	for _, e := range []*endpoint{&p.history, &p.matching, &p.worker} {
		if *e, err = parseEndpoint("127.0.0.1:0"); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

// hosts lists the cluster's members, which makes gossip between them unnecessary.
func (p ports) hosts() map[primitives.ServiceName]static.Hosts {
	single := func(e endpoint) static.Hosts {
		return static.Hosts{All: []string{e.String()}, Self: e.String()}
	}
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: single(p.frontend),
		primitives.HistoryService:  single(p.history),
		primitives.MatchingService: single(p.matching),
		primitives.WorkerService:   single(p.worker),
	}
}

// serverConfig returns the static configuration: one cluster on one host, without archival.
func serverConfig(p ports, database string) *config.Config {
	service := func(e endpoint) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: e.port, BindOnIP: e.host}}
	}
	store := sqlStore(database)
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: p.frontend.host},
		},
		Persistence: config.Persistence{
			DefaultStore:     storeName,
			VisibilityStore:  storeName,
			NumHistoryShards: historyShards,
			DataStores:       map[string]config.DataStore{storeName: {SQL: store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: p.frontend.String()},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(p.frontend),
			string(primitives.HistoryService):  service(p.history),
			string(primitives.MatchingService): service(p.matching),
			string(primitives.WorkerService):   service(p.worker),
		},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
		PublicClient: config.PublicClient{HostPort: p.frontend.String()},
	}
}

// sqlStore returns the SQLite database: a file, or an in-memory database with a name that is unique in this process.
func sqlStore(database string) *config.SQL {
	if database == "" {
		return &config.SQL{
			PluginName:        sqliteplugin.PluginName,
			DatabaseName:      "devstack-" + strconv.FormatUint(rand.Uint64(), 36),
			ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
		}
	}
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: database,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"setup":        "true",
			"journal_mode": "wal",
			"synchronous":  "normal",
		},
	}
}

// localCallbacks are where callbacks may go: to this machine.
var localCallbacks = []any{map[string]any{"Pattern": "127.0.0.1:*", "AllowInsecure": true}}

// dynamicConfig lifts the rate limits that a load test would reach before the machine's own limits, allows workflow
// callbacks to this machine, and disables the server's version check at its vendor.
func dynamicConfig() dynamicconfig.StaticClient {
	values := dynamicconfig.StaticClient{
		dynamicconfig.EnableServerVersionCheck.Key():                false,
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,
		callback.AllowedAddresses.Key():                             localCallbacks,
	}
	for _, key := range []dynamicconfig.Key{
		dynamicconfig.FrontendRPS.Key(),
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(),
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(),
		dynamicconfig.FrontendPersistenceMaxQPS.Key(),
		dynamicconfig.HistoryRPS.Key(),
		dynamicconfig.HistoryPersistenceMaxQPS.Key(),
		dynamicconfig.MatchingRPS.Key(),
		dynamicconfig.MatchingPersistenceMaxQPS.Key(),
		dynamicconfig.VisibilityPersistenceMaxReadQPS.Key(),
		dynamicconfig.VisibilityPersistenceMaxWriteQPS.Key(),
		dynamicconfig.WorkerPersistenceMaxQPS.Key(),
	} {
		values[key] = unlimited
	}
	return values
}
