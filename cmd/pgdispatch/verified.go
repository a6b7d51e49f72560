package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/sdk/client"
)

// errUnverified is of a connection that whoever stands between could read and change.
var errUnverified = errors.New("not verified")

const (
	unverifiedDatabase = "%s: the connection to %s is %w: it leaves this machine, and nothing proves that the server is the right one. " +
		"Set sslmode=verify-full, with sslrootcert where the authority is your own; or, where you trust the network between, PGDISPATCH_ALLOW_INSECURE_DATABASE=on"
	unverifiedTemporal = "TEMPORAL_ADDRESS: the connection to %s is %w: it leaves this machine without TLS, or with a certificate that nobody checks. " +
		"Set TEMPORAL_TLS=true, with TEMPORAL_TLS_SERVER_CA_CERT_PATH where the authority is your own; or, where you trust the network between, PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on"
)

// checkDatabase refuses an address off this machine that TLS does not verify, by verify-full or verify-ca.
func (c config) checkDatabase(connConfig *pgx.ConnConfig) error {
	if host := unverifiedHost(connConfig); host != "" && !c.allowInsecureDatabase {
		return fmt.Errorf(unverifiedDatabase, c.databaseName(), host, errUnverified)
	}
	return nil
}

// checkDatabaseAddress is of a configuration that was read, whatever else is wrong with it. An address that cannot be parsed is a fault
// of its own, and is not looked at here.
func (c config) checkDatabaseAddress() error {
	connConfig, err := pgx.ParseConfig(c.databaseURL)
	if err != nil {
		return nil
	}
	return c.checkDatabase(connConfig)
}

// checkOperatorAddress does the same for the address of what the web view changes, where that is another.
func (c config) checkOperatorAddress() error {
	if c.operatorURL == "" {
		return nil
	}
	return c.asOperator().checkDatabaseAddress()
}

// checkTemporalAddress reads Temporal's own configuration too.
func (c config) checkTemporalAddress() error {
	options, err := c.temporalOptions()
	if err != nil {
		return err
	}
	return c.checkTemporal(options)
}

// unverifiedHost returns the first host that might be spoken to without a check of who it is: sslmode=prefer has a second try
// without TLS, which is one of the fallbacks.
func unverifiedHost(connConfig *pgx.ConnConfig) string {
	tries := append([]*pgconn.FallbackConfig{{Host: connConfig.Host, TLSConfig: connConfig.TLSConfig}}, connConfig.Fallbacks...)
	for _, try := range tries {
		// pgx checks the certificate itself for verify-ca, which Go's own way of saying "skip" leaves open.
		verified := try.TLSConfig != nil && (!try.TLSConfig.InsecureSkipVerify || try.TLSConfig.VerifyPeerCertificate != nil)
		if !verified && !onThisMachine(try.Host) {
			return try.Host
		}
	}
	return ""
}

// checkTemporal does the same for Temporal's frontend.
func (c config) checkTemporal(options client.Options) error {
	if host := unverifiedFrontend(options); host != "" && !c.allowInsecureTemporal {
		return fmt.Errorf(unverifiedTemporal, host, errUnverified)
	}
	return nil
}

func unverifiedFrontend(options client.Options) string {
	connection := options.ConnectionOptions
	host := options.HostPort
	if connection.TLS != nil && !connection.TLSDisabled && !connection.TLS.InsecureSkipVerify || host == "" { // "": localhost:7233
		return ""
	}
	if strings.HasPrefix(host, "unix:") {
		return ""
	}
	if _, target, resolved := strings.Cut(host, ":///"); resolved { // such as dns:///temporal:7233
		host = target
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if onThisMachine(host) {
		return ""
	}
	return host
}

// onThisMachine says whether what is sent to a host stays here. A name is not looked up: who answers may be somebody else.
func onThisMachine(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") { // the directory of a socket
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
