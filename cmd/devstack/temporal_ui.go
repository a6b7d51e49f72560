package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

const (
	// uiReadyTimeout bounds the wait until the web UI listens.
	uiReadyTimeout = 10 * time.Second
	// uiReadyInterval is the interval between connection attempts meanwhile.
	uiReadyInterval = 20 * time.Millisecond
)

// webUI is Temporal's web interface, served by this process.
type webUI struct {
	// url is the address for a browser.
	url string

	server *uiserver.Server
	done   chan struct{}
}

// startUI serves the web interface of a Temporal server. The UI library exits the process if it cannot listen, so the
// port is tried first.
func startUI(ctx context.Context, address, temporal, namespace string) (*webUI, error) {
	at, err := parseEndpoint(address)
	if err != nil {
		return nil, err
	}
	probe, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("start web UI: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("start web UI: %w", err)
	}
	w := &webUI{url: "http://" + at.String(), done: make(chan struct{})}
	w.server = uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		TemporalGRPCAddress: temporal,
		Host:                at.host,
		Port:                at.port,
		EnableUI:            true,
		DefaultNamespace:    namespace,
		DisableNewsFetch:    true,
		HideLogs:            true,
		CORS:                uiconfig.CORS{CookieInsecure: true},
	}))
	go func() {
		defer close(w.done)
		_ = w.server.Start()
	}()
	if err := awaitListener(ctx, at); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// stop closes the listener and its connections.
func (w *webUI) stop() {
	w.server.Stop()
	<-w.done
}

// awaitListener returns when the endpoint accepts connections.
func awaitListener(ctx context.Context, at endpoint) error {
	ctx, cancel := context.WithTimeoutCause(ctx, uiReadyTimeout,
		fmt.Errorf("web UI did not listen within %s", uiReadyTimeout))
	defer cancel()
	tick := time.NewTicker(uiReadyInterval)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", at.String())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
