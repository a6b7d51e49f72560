package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

const (
	// temporalReadyTimeout bounds the wait until every namespace answers.
	temporalReadyTimeout = 30 * time.Second
	// temporalReadyInterval is the interval between checks of a namespace that does not answer yet.
	temporalReadyInterval = 50 * time.Millisecond
	// temporalStartAttempts is how many sets of free ports are tried.
	temporalStartAttempts = 3
)

// temporalOptions configures a server.
type temporalOptions struct {
	// address is the frontend's address. Port 0 selects a free port.
	address string
	// database is the path of a SQLite file. Empty means in memory.
	database string
	// namespaces are created if they do not exist, with a retention of 24 hours.
	namespaces []string
	// uiAddress is the web UI's address. Port 0 selects a free port. Empty disables the UI.
	uiAddress string
	// logger is the server's logger.
	logger log.Logger
}

// temporalServer is a running server.
type temporalServer struct {
	// address is the frontend's host:port.
	address string
	// ui is the web UI's URL, or empty.
	ui string

	server temporal.Server
	web    *webUI
}

// startTemporal starts a server and returns when every namespace answers. The server runs until stop.
func startTemporal(ctx context.Context, opts temporalOptions) (*temporalServer, error) {
	for attempt := 1; ; attempt++ {
		s, err := tryTemporal(ctx, opts)
		if err == nil {
			return s, nil
		}
		_, port, _ := net.SplitHostPort(opts.address)
		if port != "0" || attempt == temporalStartAttempts || ctx.Err() != nil {
			return nil, err
		}
		opts.logger.Warn("Temporal did not start, trying other ports: " + err.Error())
	}
}

// tryTemporal makes one attempt to start with one set of ports.
func tryTemporal(ctx context.Context, opts temporalOptions) (*temporalServer, error) {
	ports, err := choosePorts(opts.address)
	if err != nil {
		return nil, err
	}
	server, err := newServer(serverConfig(ports, opts.database), ports, opts)
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start Temporal: %w", err), server.Stop())
	}
	s := &temporalServer{address: ports.frontend.String(), server: server}
	if err := awaitNamespaces(ctx, s.address, opts.namespaces); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if opts.uiAddress != "" {
		if s.web, err = startUI(ctx, opts.uiAddress, s.address, opts.namespaces[0]); err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.ui = s.web.url
	}
	return s, nil
}

// newServer prepares the database and constructs the server.
func newServer(cfg *config.Config, ports ports, opts temporalOptions) (server temporal.Server, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case fatalError:
			err = fmt.Errorf("make Temporal server: %w", cause)
		default:
			panic(cause)
		}
	}()
	if err := createNamespaces(cfg, opts.namespaces); err != nil {
		return nil, err
	}
	authorizer, err := authorization.GetAuthorizerFromConfig(&cfg.Global.Authorization)
	if err != nil {
		return nil, fmt.Errorf("make authorizer: %w", err)
	}
	logger := fatalPanics{opts.logger}
	claimMapper, err := authorization.GetClaimMapperFromConfig(&cfg.Global.Authorization, logger)
	if err != nil {
		return nil, fmt.Errorf("make claim mapper: %w", err)
	}
	server, err = temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(ports.hosts()),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claimMapper }),
		temporal.WithDynamicConfigClient(dynamicConfig()),
	)
	if err != nil {
		return nil, fmt.Errorf("make Temporal server: %w", err)
	}
	return server, nil
}

// createNamespaces writes the namespaces to the database before the server reads it, so that they are available from
// the start.
func createNamespaces(cfg *config.Config, names []string) error {
	var namespaces []*sqlite.NamespaceConfig
	for _, name := range names {
		ns, err := sqlite.NewNamespaceConfig(cfg.ClusterMetadata.CurrentClusterName, name, false, nil)
		if err != nil {
			return fmt.Errorf("describe namespace %s: %w", name, err)
		}
		namespaces = append(namespaces, ns)
	}
	if err := sqlite.CreateNamespaces(cfg.Persistence.DataStores[storeName].SQL, namespaces...); err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	return nil
}

// awaitNamespaces returns when the frontend knows every namespace.
func awaitNamespaces(ctx context.Context, address string, names []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, temporalReadyTimeout,
		fmt.Errorf("not ready within %s", temporalReadyTimeout))
	defer cancel()
	c, err := client.NewLazyClient(client.Options{HostPort: address, Logger: quietLogger()})
	if err != nil {
		return fmt.Errorf("make Temporal client: %w", err)
	}
	defer c.Close()
	tick := time.NewTicker(temporalReadyInterval)
	defer tick.Stop()
	for _, name := range names {
		for {
			_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for namespace %s: %w", name, errors.Join(context.Cause(ctx), err))
			case <-tick.C:
			}
		}
	}
	return nil
}

// stop stops the UI and then the server.
func (s *temporalServer) stop() error {
	if s.web != nil {
		s.web.stop()
	}
	if err := s.server.Stop(); err != nil {
		return fmt.Errorf("stop Temporal: %w", err)
	}
	return nil
}

// endpoint is a host and a port.
type endpoint struct {
	host string
	port int
}

// String returns the endpoint as host:port.
func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

// parseEndpoint parses an address of this machine and replaces port 0 with a free port.
func parseEndpoint(address string) (endpoint, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, usageError{fmt.Errorf("read address: %w", err)}
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		err := fmt.Errorf("read address %s: the host must be a loopback address such as 127.0.0.1", address)
		return endpoint{}, usageError{err}
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return endpoint{}, usageError{fmt.Errorf("read port of address %s: %w", address, err)}
	}
	if port == 0 {
		port, err = process.FreePort(host)
	}
	return endpoint{host: host, port: port}, err
}
