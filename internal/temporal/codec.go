package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// codecTimeout limits a call of the codec server. Together with requestTimeout it is shorter than SignalTimeout.
const codecTimeout = 3 * time.Second

// Results of a call of the codec server, passed to Codec.Saw.
const (
	CodecEncoded     = "encoded"
	CodecDecoded     = "decoded"
	CodecRefused     = "refused"     // it answers 400, 413 or 422: these payloads
	CodecUnavailable = "unavailable" // any other answer, or none
)

// Codec encodes payloads before they are sent to Temporal, and decodes what workflows return. It asks a codec server
// that has the codec of the workers' data converter. Nothing is sent that it has not encoded. CodecTarget.Open returns
// one.
type Codec struct {
	// Saw is called with the result of each call and its duration. It must be set before use, and must not block. Nil
	// disables it.
	Saw func(result string, took time.Duration)

	endpoint  string
	token     *secretFile // nil if there is none
	transport http.RoundTripper
	log       *slog.Logger
	failure   atomic.Pointer[CodecError]
}

// CodecError says that the codec server cannot be used. It is about no single payload. errors.Is(err, ErrAway) holds.
type CodecError struct {
	Endpoint string
	cause    error
	since    time.Time // when the first of these errors in a row occurred
}

// Error implements error.
func (e *CodecError) Error() string { return fmt.Sprintf("codec server %s: %v", e.Endpoint, e.cause) }

// Unwrap returns the cause.
func (e *CodecError) Unwrap() error { return e.cause }

// Is reports whether target is ErrAway: without the codec server Temporal is as good as away.
func (e *CodecError) Is(target error) bool { return target == ErrAway }

// Told implements engine.Told.
func (e *CodecError) Told() {}

// outcome returns the outcome of a start that was not sent for lack of the codec server.
func (e *CodecError) outcome() engine.Outcome {
	var answer codecAnswer
	if errors.As(e.cause, &answer) && answer.needsAPerson() {
		return engine.Blocked
	}
	return engine.Unreached
}

// Remedy returns what a person can do about it.
func (e *CodecError) Remedy() string {
	var answer codecAnswer
	_ = errors.As(e.cause, &answer)
	switch {
	case answer == http.StatusUnauthorized, answer == http.StatusForbidden:
		return "correct the token in the file that PGDISPATCH_CODEC_TOKEN_FILE names, or allow it to " +
			"encode for this namespace"
	case answer.needsAPerson(), isMalformed(e.cause):
		return "correct PGDISPATCH_CODEC_ENDPOINT: the codec server must answer /encode and /decode below it"
	case isUntrusted(e.cause):
		return "correct the certificate of the codec server, or name its authority's in PGDISPATCH_CODEC_CA_FILE"
	}
	return "check that the codec server runs, and that PGDISPATCH_CODEC_ENDPOINT leads to it"
}

// Failure returns why the codec server cannot be used, as far as the last call showed, or nil. A nil Codec has none.
func (c *Codec) Failure() *CodecError {
	if c == nil {
		return nil
	}
	return c.failure.Load()
}

// probe is what Probe encodes.
var probe = []*commonpb.Payload{jsonPayload([]byte(`"pgdispatch"`))}

// Probe encodes a payload of no meaning. Its error is a CodecError.
func (c *Codec) Probe(ctx context.Context, namespace string) error {
	if _, err := c.call(ctx, namespace, codecEncode, probe); err != nil {
		return c.fails(ctx, err)
	}
	c.works(ctx)
	return nil
}

// Encode encodes payloads for a namespace, in one request. If it fails, a probe decides between these payloads and the
// codec server. If the server encodes the probe, the error is Permanent if it refuses these payloads, and Retryable if
// it fails in another way. Otherwise the error is a CodecError.
func (c *Codec) Encode(ctx context.Context, namespace string,
	payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	encoded, err := c.call(ctx, namespace, codecEncode, payloads)
	if err == nil {
		c.works(ctx)
		return encoded, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, As(engine.NotSent, err)
	}
	// Another server under this address may answer 400 to everything. Then no item must fail.
	switch probed := c.Probe(ctx, namespace); {
	case probed == nil && isRefused(err):
		return nil, As(engine.Permanent, fmt.Errorf("codec server %s does not encode this: %w", c.endpoint, err))
	case probed == nil:
		return nil, As(engine.Retryable, fmt.Errorf("codec server %s fails to encode this, and encodes other payloads: %w",
			c.endpoint, err))
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, As(engine.NotSent, err)
	}
	failure := c.fails(ctx, err)
	return nil, As(failure.outcome(), failure)
}

// Decode decodes payloads of a namespace, in one request. It returns a CodecError if the codec server cannot be used,
// and another error if it encodes and yet does not decode these.
func (c *Codec) Decode(ctx context.Context, namespace string,
	payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	decoded, err := c.call(ctx, namespace, codecDecode, payloads)
	if err == nil {
		return decoded, nil
	}
	// Many codec servers answer 500 to what they cannot decrypt, and such a payload must not hold up its end for ever.
	if failure := c.Probe(ctx, namespace); failure != nil {
		return nil, failure
	}
	return c.call(ctx, namespace, codecDecode, payloads)
}

const (
	codecEncode = "encode"
	codecDecode = "decode"
)

// call makes one request with the codec of Temporal's SDK.
func (c *Codec) call(ctx context.Context, namespace, operation string,
	payloads []*commonpb.Payload) (result []*commonpb.Payload, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, codecTimeout,
		fmt.Errorf("%s timed out after %s", operation, codecTimeout))
	defer cancel()
	began := time.Now()
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{
		Endpoint: c.endpoint, Client: http.Client{Transport: codecTransport{c, ctx, namespace}}})
	if operation == codecEncode {
		result, err = remote.Encode(payloads)
	} else {
		result, err = remote.Decode(payloads)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), withoutURL(err))
	case err != nil:
		err = fmt.Errorf("%s: %w", operation, withoutURL(err))
	}
	if c.Saw != nil {
		c.Saw(codecResult(operation, err), time.Since(began))
	}
	return result, err
}

func codecResult(operation string, err error) string {
	switch {
	case isRefused(err):
		return CodecRefused
	case err != nil:
		return CodecUnavailable
	case operation == codecDecode:
		return CodecDecoded
	}
	return CodecEncoded
}

func (c *Codec) works(ctx context.Context) {
	if was := c.failure.Swap(nil); was != nil {
		c.log.InfoContext(ctx, "The codec server encodes again", "after_ms", time.Since(was.since).Milliseconds(), "error",
			was, "remedy", was.Remedy())
	}
}

// fails notes that the codec server cannot be used.
func (c *Codec) fails(ctx context.Context, err error) *CodecError {
	failure := &CodecError{c.endpoint, err, time.Now()}
	if was := c.failure.Load(); was != nil {
		failure.since = was.since
	}
	if !errors.Is(ctx.Err(), context.Canceled) && c.failure.Swap(failure) == nil {
		c.log.ErrorContext(ctx, "The codec server does not encode; nothing is sent to Temporal until it does", "error",
			failure, "remedy", failure.Remedy())
	}
	return failure
}

// CodecTarget is a codec server to use. Without an Endpoint there is none.
type CodecTarget struct {
	Endpoint  string // its URL, without /encode and /decode
	TokenFile string // of the token that it asks for; empty if it asks for none
	CAFile    string // of the authority of its certificate; empty means those that the machine trusts
}

// Verify refuses files that cannot be read, and those of no codec server.
func (t CodecTarget) Verify() error {
	if t.Endpoint == "" && (t.TokenFile != "" || t.CAFile != "") {
		return errors.New("PGDISPATCH_CODEC_TOKEN_FILE and PGDISPATCH_CODEC_CA_FILE have no effect: set " +
			"PGDISPATCH_CODEC_ENDPOINT")
	}
	_, err := t.Open(slog.New(slog.DiscardHandler))
	return err
}

// Open returns the codec, or nil if there is none. It connects on first use. A new token in its file is used within
// seconds, and new certificates by the next connection.
func (t CodecTarget) Open(log *slog.Logger) (*Codec, error) {
	if t.Endpoint == "" {
		return nil, nil
	}
	transport, err := newCodecTransport(t.CAFile)
	if err != nil {
		return nil, err
	}
	codec := &Codec{endpoint: strings.TrimRight(t.Endpoint, "/"), transport: transport, log: log}
	if t.TokenFile != "" {
		codec.token = &secretFile{path: t.TokenFile, variable: "PGDISPATCH_CODEC_TOKEN_FILE", log: log,
			changed: "The codec server's token has changed",
			unread:  "Cannot read the codec server's token anew: going on with the last"}
		err = codec.token.open()
	}
	return codec, err
}

// CodecOfProfile returns the codec server that Temporal's own configuration names, which Dial does not use, or "".
func CodecOfProfile() string {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil || profile.Codec == nil {
		return ""
	}
	return profile.Codec.Endpoint
}
