package main

// encoding: nothing reaches Temporal that the codec server has not encoded, and its outage fails nothing.
var encoding = []mutant{
	{"the codec encodes starts", "a start is sent in clear",
		[]edit{{"temporal.Client.Start", "if err := t.encodeStart(ctx, request.StartWorkflowExecutionRequest); err != nil {",
			"if err := error(nil); err != nil {"}},
		"./internal/temporal", "TestAStartIsEncodedExceptWhatTemporalMustRead"},
	{"the codec encodes signals", "the argument of a signal is sent in clear",
		[]edit{{"temporal.Client.Signal",
			"if err := t.encode(ctx, request.Namespace, request.GetInput().GetPayloads()); err != nil {",
			"if err := error(nil); err != nil {"}},
		"./internal/temporal", "TestSignalsAreEncoded"},
	{"the codec fails only an item with bad payloads", "an item fails because another server answers 400 to everything",
		[]edit{{"temporal.Codec.Encode", "if isRefused(err) && c.Probe(ctx, namespace) == nil {", "if isRefused(err) {"}},
		"./internal/temporal", "TestNothingIsSentThatTheCodecServerDoesNotEncode"},
	{"ends wait for the codec", "an end is recorded without its result during an outage of the codec server",
		[]edit{{"temporal.Client.decode", "case errors.As(err, &away):", "case errors.As(err, &away) && false:"}},
		"./internal/temporal", "TestResultsAreDecoded"},
	{"ends do not wait for what the codec refuses", "an execution whose result cannot be decoded never ends",
		[]edit{{"temporal.Codec.Decode", "return c.call(ctx, namespace, codecDecode, payloads)",
			"return nil, c.fails(ctx, err)"}},
		"./internal/temporal", "TestResultsAreDecoded"},
	{"the codec is not redirected", "payloads follow a redirection to another server",
		[]edit{{"temporal.codecTransport.RoundTrip", "if response.StatusCode != http.StatusOK {",
			"if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusFound {"}},
		"./internal/temporal", "TestNothingIsSentThatTheCodecServerDoesNotEncode"},
}
