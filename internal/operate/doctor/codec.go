package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// checkCodec encodes and decodes a payload of no meaning. Without a codec server it finds one that Temporal's own
// configuration names, which replicas do not use.
func checkCodec(ctx context.Context, c config.Config, namespace string) []Finding {
	const check = "codec"
	if c.Codec.Endpoint == "" {
		named := temporal.CodecOfProfile()
		if named == "" {
			return nil
		}
		return []Finding{{check, Warning, "Temporal's configuration names the codec server " + view.Printable(named) +
			", and PGDISPATCH_CODEC_ENDPOINT is empty", "Payloads are sent to Temporal as JSON that everybody can read.",
			"Set PGDISPATCH_CODEC_ENDPOINT if the workers use that codec."}}
	}
	codec, err := c.Codec.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return []Finding{{check, Problem, postgres.Redact(err).Error(), "Replicas do not start.",
			"Correct the file, or the variable that names it."}}
	}
	word := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"pgdispatch"`)}
	encoded, err := codec.Encode(ctx, namespace, []*commonpb.Payload{word})
	var failure *temporal.CodecError
	switch {
	case errors.As(err, &failure):
		return []Finding{{check, Problem, postgres.Redact(err).Error(),
			"Nothing is sent to Temporal. Replicas pause, and items wait.", failure.Remedy() + "."}}
	case err != nil:
		return []Finding{{check, Problem, postgres.Redact(err).Error(), "Items may fail.", "See the codec server's log."}}
	case proto.Equal(word, encoded[0]):
		return []Finding{{check, Warning, fmt.Sprintf("%s returns a payload as it is", c.Codec.Endpoint),
			"Payloads are sent to Temporal as JSON that everybody can read.",
			"Check that PGDISPATCH_CODEC_ENDPOINT leads to a codec server that encrypts."}}
	}
	decoded, err := codec.Decode(ctx, namespace, encoded)
	switch {
	case err != nil:
		return []Finding{{check, Warning, postgres.Redact(err).Error(),
			"Results and messages of failures are not decoded, so they are not kept.",
			"Allow the token to decode, unless that is intended."}}
	case !proto.Equal(word, decoded[0]):
		return []Finding{{check, Problem, fmt.Sprintf("%s decodes another payload than it encoded", c.Codec.Endpoint),
			"Workers cannot read their input.", "See the codec server's log."}}
	}
	return []Finding{ok(check, "%s encodes and decodes", c.Codec.Endpoint)}
}
