package operate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// CheckJSON refuses text that is no JSON value, or one that Postgres does not take.
func CheckJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if word, is := token.(string); is && strings.ContainsRune(word, 0) {
			return fmt.Errorf("line %d: the text %.40q has the character \\u0000, which Postgres does not take",
				lineOf(text, decoder.InputOffset()), word)
		}
		if err != nil {
			break // Unmarshal says where
		}
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: it is not JSON: %w", lineOf(text, syntax.Offset), err)
	case err != nil:
		return fmt.Errorf("it is not JSON: %w", err)
	}
	return nil
}

func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}
