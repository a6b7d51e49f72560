package cli

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// lineFields are the fields of a line, which are those that an application's insert sets.
var lineFields = []string{"workspace", "definition", "params", "priority", "run_at", "start_before", "idempotency_key",
	"limit_key", "workflow_id", "traceparent", "start_options", "key", "on_conflict", "quiet", "at_most"}

// maxLine is the longest line of NDJSON that is read, in bytes.
const maxLine = 4 * operate.MaxParams

// fileLine is one item of a file, by field. A field that is not there is not given.
type fileLine struct {
	number int // of its first line in the file, from 1; zero if flags give the fields
	fields map[string]string
	err    error // why the line cannot be read
}

// name returns the name of a field for an error.
func (l fileLine) name(field string) string {
	if l.number == 0 {
		return "--" + flagOf(field)
	}
	return field
}

// flagOf returns the name of a field's flag.
func flagOf(field string) string { return strings.ReplaceAll(field, "_", "-") }

// lineReader reads a file item by item. After the last it returns io.EOF. Another error ends the file too.
type lineReader func() (fileLine, error)

// readLines reads CSV with a header, or one JSON object per line, whichever the file begins with.
func readLines(from io.Reader) (lineReader, error) {
	in := bufio.NewReaderSize(from, 64<<10)
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) { // a byte order mark
		_, _ = in.Discard(3)
	}
	for size := 1; ; size++ {
		begin, err := in.Peek(size)
		if len(begin) < size {
			if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
				return readNDJSON(in), nil
			}
			return nil, err
		}
		switch begin[size-1] {
		case ' ', '\t', '\r', '\n':
			continue
		case '{':
			return readNDJSON(in), nil
		}
		return readCSV(in)
	}
}

func readNDJSON(in *bufio.Reader) lineReader {
	number := 0
	return func() (fileLine, error) {
		for {
			text, tooLong, err := readLine(in)
			number++
			line := fileLine{number: number}
			text = bytes.TrimSpace(text)
			switch {
			case tooLong:
				line.err = fmt.Errorf("it has more than %d bytes", maxLine)
			case len(text) > 0:
				line.fields, line.err = objectFields(text)
			case err != nil:
				return line, err
			default: // blank
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return line, err
			}
			return line, nil
		}
	}
}

// readLine reads up to the next end of a line. What is beyond maxLine is dropped.
func readLine(in *bufio.Reader) (text []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			tooLong = true
		} else {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, tooLong, err
		}
	}
}

func objectFields(text []byte) (map[string]string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		if text[0] != '{' {
			return nil, errors.New("it must be a JSON object")
		}
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	fields := map[string]string{}
	for name, value := range object {
		if err := checkField(name); err != nil {
			return nil, err
		}
		if string(value) == "null" {
			continue
		}
		text, err := fieldText(name, value)
		if err != nil {
			return nil, err
		}
		fields[name] = text
	}
	return fields, nil
}

func checkField(name string) error {
	if !slices.Contains(lineFields, name) {
		return fmt.Errorf("%.80q is no field: there are %s%s", name, strings.Join(lineFields, ", "), didYouMean(name,
			lineFields))
	}
	return nil
}

// fieldText returns a JSON value as it would stand in CSV.
func fieldText(name string, value json.RawMessage) (string, error) {
	switch name {
	case "params", "start_options":
		return string(value), nil
	case "priority":
		return strings.Trim(string(value), `"`), nil
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	if text == "" {
		return "", fmt.Errorf("%s is empty: leave it out, or give it a value", name)
	}
	return text, nil
}

func readCSV(in io.Reader) (lineReader, error) {
	reader := csv.NewReader(in)
	header, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	header = slices.Clone(header)
	for n, name := range header {
		header[n] = strings.TrimSpace(name)
		if err := checkField(header[n]); err != nil {
			return nil, fmt.Errorf("line 1: %w; "+
				"the first line of CSV names its columns, and one of NDJSON begins with {", err)
		}
		if slices.Contains(header[:n], header[n]) {
			return nil, fmt.Errorf("line 1: the column %s is there twice", header[n])
		}
	}
	return func() (fileLine, error) {
		record, err := reader.Read()
		var fault *csv.ParseError
		switch {
		case errors.As(err, &fault):
			return fileLine{number: fault.StartLine, err: fault.Err}, nil
		case err != nil:
			return fileLine{}, err
		}
		number, _ := reader.FieldPos(0)
		line := fileLine{number: number, fields: map[string]string{}}
		for n, text := range record {
			if text != "" {
				line.fields[header[n]] = text
			}
		}
		return line, nil
	}, nil
}

// item returns a line's item, without the IDs of its workspace and definition.
func (l fileLine) item() (operate.NewItem, error) {
	f := l.fields
	if _, given := f["params"]; !given {
		f["params"] = "{}"
	}
	item := operate.NewItem{Params: json.RawMessage(f["params"]), IdempotencyKey: f["idempotency_key"],
		LimitKey: f["limit_key"], WorkflowID: f["workflow_id"], Traceparent: f["traceparent"],
		StartOptions: json.RawMessage(f["start_options"]), Key: f["key"], OnConflict: f["on_conflict"]}
	var faults []error
	for field, text := range f {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			faults = append(faults, fmt.Errorf("%s must be text in UTF-8, without zero characters", l.name(field)))
		}
	}
	for _, field := range []string{"params", "start_options"} {
		if text, given := f[field]; strings.TrimSpace(text) == "null" {
			faults = append(faults, fmt.Errorf("%s is null: give it a value, or leave it out", l.name(field)))
		} else if given {
			if err := operate.CheckJSON([]byte(text)); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", l.name(field), err))
			}
		}
	}
	if item.Key != "" && item.IdempotencyKey != "" {
		faults = append(faults, fmt.Errorf("%s and %s are both given: give one of them", l.name("key"),
			l.name("idempotency_key")))
	}
	if text, given := f["priority"]; given {
		priority, err := strconv.Atoi(text)
		if item.Priority = &priority; err != nil {
			faults = append(faults, fmt.Errorf("priority is %.80q: it must be a whole number from -100 to 100", text))
		}
	}
	var errs [4]error
	item.RunAt, item.RunIn, errs[0] = l.moment("run_at")
	item.StartBefore, item.StartIn, errs[1] = l.moment("start_before")
	item.Quiet, errs[2] = l.duration("quiet")
	item.AtMost, errs[3] = l.duration("at_most")
	return item, errors.Join(append(faults, errs[:]...)...)
}

// duration returns the duration in a field of the line, as the database reads it. It is empty if there is none.
func (l fileLine) duration(field string) (string, error) {
	text, given := l.fields[field]
	if !given {
		return "", nil
	}
	span, err := parseDays(text)
	if err != nil {
		return "", fmt.Errorf("%s is %.80q: it must be a duration such as 500ms, 30s or 5m", l.name(field), text)
	}
	return interval(span), nil
}

// moment returns the time in a field of the line, or in how long it is.
func (l fileLine) moment(field string) (*time.Time, string, error) {
	moment, err := parseMoment(field, l.fields[field])
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%s is %.80q: it must be a time such as 2026-08-01T10:00:00Z, a day such as 2026-08-01, "+
			"or a delay such as 30m, 2h or 7d", l.name(field), l.fields[field])
	case moment.Ago != nil:
		return nil, interval(*moment.Ago), nil
	}
	return moment.At, "", nil
}

func interval(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
