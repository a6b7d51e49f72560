package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments holds all instruments by name. Labels are prebuilt, so that counting an item allocates nothing. A nil
// *instruments measures nothing.
type instruments struct {
	counters   map[string]counterOf
	histograms map[string]metric.Float64Histogram
	gauges     map[string]metric.Float64ObservableGauge
}

type counterOf struct {
	metric.Int64Counter
	label  string
	values map[string]metric.AddOption
}

// newInstruments creates all instruments of the catalogue.
func newInstruments(meter metric.Meter) (*instruments, error) {
	all := &instruments{map[string]counterOf{}, map[string]metric.Float64Histogram{}, map[string]metric.Float64ObservableGauge{}}
	for _, m := range Catalogue() {
		var err error
		switch m.Kind {
		case counter:
			err = all.addCounter(meter, m)
		case histogram:
			all.histograms[m.Name], err = meter.Float64Histogram(m.Name, metric.WithDescription(m.Meaning), metric.WithExplicitBucketBoundaries(m.Buckets...))
		case gauge:
			all.gauges[m.Name], err = meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Meaning))
		}
		if err != nil {
			return nil, fmt.Errorf("make metric %s: %w", m.Name, err)
		}
	}
	return all, nil
}

func (i *instruments) addCounter(meter metric.Meter, m Metric) error {
	made, err := meter.Int64Counter(m.Name, metric.WithDescription(m.Meaning))
	if err != nil {
		return err
	}
	c := counterOf{Int64Counter: made, label: m.Label, values: map[string]metric.AddOption{}}
	for _, value := range m.Values {
		c.values[value] = label(m.Label, value)
		made.Add(context.Background(), 0, c.values[value])
	}
	if m.Label == "" {
		made.Add(context.Background(), 0)
	}
	i.counters[m.Name] = c
	return nil
}

// count adds n to a counter. value is the label's value, empty if the counter has no label.
func (i *instruments) count(name string, n int, value string) {
	if i == nil {
		return
	}
	c := i.counters[name]
	switch option, known := c.values[value]; {
	case n == 0:
	case known:
		c.Add(context.Background(), int64(n), option)
	case c.label == "":
		c.Add(context.Background(), int64(n))
	default:
		c.Add(context.Background(), int64(n), label(c.label, value))
	}
}

func (i *instruments) record(name string, value float64) {
	if i != nil {
		i.histograms[name].Record(context.Background(), value)
	}
}

func label(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}
