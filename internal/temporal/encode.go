package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
)

// plainMemo are the fields of a memo that pgdispatch sets itself. They hold IDs, and nobody else may set them.
var plainMemo = []string{memoKey, "pgdispatch_queue_item_id", "pgdispatch_workspace_id",
	"pgdispatch_workflow_definition_id"}

// encodeStart encodes what a start says of its item: input, memo, summary and details. Search attributes stay readable,
// because Temporal searches by them, and so do headers, which hold IDs that the SDKs read without a codec.
func (t *Client) encodeStart(ctx context.Context, request *workflowservice.StartWorkflowExecutionRequest) error {
	if t.Codec == nil {
		return nil
	}
	payloads := slices.Clone(request.GetInput().GetPayloads())
	for name, payload := range request.GetMemo().GetFields() {
		if !slices.Contains(plainMemo, name) {
			payloads = append(payloads, payload)
		}
	}
	if metadata := request.GetUserMetadata(); metadata != nil {
		payloads = append(payloads, metadata.GetSummary(), metadata.GetDetails())
	}
	return t.encode(ctx, request.GetNamespace(), payloads)
}

// encode encodes payloads in place, unless the application has encoded them.
func (t *Client) encode(ctx context.Context, namespace string, payloads []*commonpb.Payload) error {
	if t.Codec == nil {
		return nil
	}
	plain := slices.DeleteFunc(slices.Clone(payloads), func(p *commonpb.Payload) bool { return p == nil || !isPlain(p) })
	if len(plain) == 0 {
		return nil
	}
	encoded, err := t.Codec.Encode(ctx, namespace, plain)
	if err != nil {
		return fmt.Errorf("encode payloads: %w", err)
	}
	replace(plain, encoded)
	return nil
}

// decode decodes in place what an operator sees of an end. It returns a CodecError if the codec server cannot be used.
// What it does not decode stays as it is.
func (t *Client) decode(ctx context.Context, execution Execution, result *commonpb.Payloads,
	failure *failurepb.Failure) error {
	if t.Codec == nil {
		return nil
	}
	err := Decode(result, failure, func(encoded []*commonpb.Payload) ([]*commonpb.Payload, error) {
		return t.Codec.Decode(ctx, t.namespace(execution.Namespace), encoded)
	})
	var away *CodecError
	switch {
	case errors.As(err, &away):
		return fmt.Errorf("decode the end: %w", err)
	case err != nil:
		t.Codec.log.WarnContext(ctx, "The codec server does not decode how an execution ended; it is recorded without",
			"execution_id", execution.ID, "error", err)
	}
	return nil
}

// Decode decodes in place what Result and Failure return: the first payload of a result, and the messages of a failure
// and its causes.
func Decode(result *commonpb.Payloads, failure *failurepb.Failure,
	decode func([]*commonpb.Payload) ([]*commonpb.Payload, error)) error {
	encoded := slices.Clone(result.GetPayloads()[:min(len(result.GetPayloads()), 1)])
	failures := chain(failure)
	for _, failure := range failures {
		if attributes := failure.GetEncodedAttributes(); attributes != nil {
			encoded = append(encoded, attributes)
		}
	}
	if len(encoded) == 0 {
		return nil
	}
	decoded, err := decode(encoded)
	if err != nil {
		return err
	}
	replace(encoded, decoded)
	for _, failure := range failures {
		readAttributes(failure)
	}
	return nil
}

// chain returns a failure and those causes of it that Failure shows.
func chain(failure *failurepb.Failure) (all []*failurepb.Failure) {
	for ; failure != nil && len(all) <= maxCauses; failure = failure.GetCause() {
		all = append(all, failure)
	}
	return all
}

// readAttributes restores the message of a failure that a failure converter has moved to a payload.
func readAttributes(failure *failurepb.Failure) {
	var attributes struct {
		Message *string `json:"message"`
	}
	err := json.Unmarshal(failure.GetEncodedAttributes().GetData(), &attributes)
	if err == nil && attributes.Message != nil {
		failure.Message = *attributes.Message
	}
}

// isPlain reports whether a payload has the encoding of a default data converter, so that everybody can read it. Other
// encodings are those of codecs.
func isPlain(payload *commonpb.Payload) bool {
	switch string(payload.GetMetadata()["encoding"]) {
	case "", "json/plain", "json/protobuf", "binary/plain", "binary/protobuf", "binary/null":
		return true
	}
	return false
}

func replace(payloads, by []*commonpb.Payload) {
	for i, payload := range payloads {
		proto.Reset(payload)
		proto.Merge(payload, by[i])
	}
}
