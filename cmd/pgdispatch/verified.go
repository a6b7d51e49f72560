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

// errUnverified marks a connection that a man in the middle could read and change.
var errUnverified = errors.New("not verified")

const (
	unverifiedDatabase = "%s: the connection to %s is %w: it leaves this machine, and nothing proves that the server is the right one. " +
		"Set sslmode=verify-full, with sslrootcert where the authority is your own; or, where you trust the network between, PGDISPATCH_ALLOW_INSECURE_DATABASE=on"
	unverifiedTemporal = "TEMPORAL_ADDRESS: the connection to %s is %w: it leaves this machine without TLS, or with a certificate that nobody checks. " +
		"Set TEMPORAL_TLS=true, with TEMPORAL_TLS_SERVER_CA_CERT_PATH where the authority is your own; or, where you trust the network between, PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on"
)

// checkDatabase refuses a remote address unless TLS verifies it, through verify-full or verify-ca.
func (c config) checkDatabase(connConfig *pgx.ConnConfig) error {
	if host := unverifiedHost(connConfig); host != "" && !c.allowInsecureDatabase {
		return fmt.Errorf(unverifiedDatabase, c.databaseName(), host, errUnverified)
	}
	return nil
}

// checkDatabaseAddress checks the database URL of a configuration that may have other errors. It ignores a URL that
// cannot be parsed, which is reported elsewhere.
func (c config) checkDatabaseAddress() error {
	connConfig, err := pgx.ParseConfig(c.databaseURL)
	if err != nil {
		return nil
	}
	return c.checkDatabase(connConfig)
}

// checkOperatorAddress does the same for the operator's database URL, if set.
func (c config) checkOperatorAddress() error {
	if c.operatorURL == "" {
		return nil
	}
	return c.asOperator().checkDatabaseAddress()
}

// checkTemporalAddress does the same for Temporal. It also reads Temporal's own configuration.
func (c config) checkTemporalAddress() error {
	options, err := c.temporalOptions()
	if err != nil {
		return err
	}
	return c.checkTemporal(options)
}

// unverifiedHost returns the first remote host that may be contacted without verification, or "". It includes
// fallbacks: sslmode=prefer, for example, retries without TLS.
func unverifiedHost(connConfig *pgx.ConnConfig) string {
	tries := append([]*pgconn.FallbackConfig{{Host: connConfig.Host, TLSConfig: connConfig.TLSConfig}}, connConfig.Fallbacks...)
	for _, try := range tries {
		// For verify-ca, pgx sets InsecureSkipVerify and verifies the certificate in VerifyPeerCertificate.
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
	if connection.TLS != nil && !connection.TLSDisabled && !connection.TLS.InsecureSkipVerify || host == "" { // "" is localhost
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

// onThisMachine reports whether traffic to a host stays on this machine. Names other than localhost are not resolved,
// because another host could answer.
func onThisMachine(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") { // directory of a socket
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
