package temporal

import (
	"context"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"
)

// encodingService records the compression of each start, and may reject compressed ones.
type encodingService struct {
	startService
	refusesGzip, refusesAll bool
	encodings               []string
}

func (s *encodingService) StartWorkflowExecution(ctx context.Context, r *startRequest,
	options ...grpc.CallOption) (*startResponse, error) {
	encoding := ""
	for _, option := range options {
		if compressor, ok := option.(grpc.CompressorCallOption); ok {
			encoding = compressor.CompressorType
		}
	}
	s.encodings = append(s.encodings, encoding)
	if s.refusesAll || s.refusesGzip && encoding == "gzip" {
		return nil, serviceerror.NewUnimplemented("not here")
	}
	return s.startService.StartWorkflowExecution(ctx, r)
}

// anItemOf returns an item whose workflow input has n bytes.
func anItemOf(bytes int) Start {
	item := anItem()
	item.Params = []byte(`""`)
	item.Params = []byte(`"` + strings.Repeat("x", bytes-len(envelope(item))) + `"`)
	return item
}

func TestOnlyALargeStartIsCompressed(t *testing.T) {
	t.Parallel()
	service := &encodingService{}
	starter := &Client{Service: service, Namespace: "shop"}
	for _, item := range []Start{anItem(), anItemOf(compressAbove), anItemOf(compressAbove + 1), anItem()} {
		_, err := starter.Start(t.Context(), item)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"", "", "gzip", ""}, service.encodings)
}

// A proxy may not support compression. One large item must not stop all others.
func TestALargeStartThatIsRefusedCompressedIsSentAsItIs(t *testing.T) {
	t.Parallel()
	service := &encodingService{refusesGzip: true}
	starter := &Client{Service: service, Namespace: "shop"}
	for range 2 {
		runID, err := starter.Start(t.Context(), anItemOf(compressAbove+1))
		require.NoError(t, err)
		require.Equal(t, "run", runID)
	}
	require.Equal(t, []string{"gzip", "", ""}, service.encodings, "compression is not tried again")
}

func TestAServerThatRefusesALargeStartEitherWayIsNotTakenForOneWithoutCompression(t *testing.T) {
	t.Parallel()
	service := &encodingService{refusesAll: true}
	starter := &Client{Service: service, Namespace: "shop"}
	_, err := starter.Start(t.Context(), anItemOf(compressAbove+1))
	require.Equal(t, engine.Blocked.String(), Classify(err).String())
	service.refusesAll = false
	_, err = starter.Start(t.Context(), anItemOf(compressAbove+1))
	require.NoError(t, err)
	require.Equal(t, []string{"gzip", "", "gzip"}, service.encodings)
}
