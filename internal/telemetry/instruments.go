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
	histograms map[string][]metric.Float64Histogram // under each of their names
	gauges     map[string]metric.Float64ObservableGauge
}

// counterOf is a counter, under each of its names.
type counterOf struct {
	of     []metric.Int64Counter
	label  string
	values map[string]metric.AddOption
}

func (c counterOf) add(n int, option ...metric.AddOption) {
	for _, counter := range c.of {
		counter.Add(context.Background(), int64(n), option...)
	}
}

// newInstruments creates all instruments of the catalogue.
func newInstruments(meter metric.Meter) (*instruments, error) {
	all := &instruments{map[string]counterOf{}, map[string][]metric.Float64Histogram{},
		map[string]metric.Float64ObservableGauge{}}
	for _, m := range Catalogue() {
		var err error
		switch m.Kind {
		case counter:
			err = all.addCounter(meter, m)
		case histogram:
			err = all.addHistogram(meter, m)
		case gauge:
			all.gauges[m.Name], err = meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Meaning))
		}
		if err != nil {
			return nil, fmt.Errorf("make metric %s: %w", m.Name, err)
		}
	}
	return all, nil
}

// names returns the metric's name, and the former one if it has one.
func (m Metric) names() []string {
	if m.Former == "" {
		return []string{m.Name}
	}
	return []string{m.Name, m.Former}
}

func (i *instruments) addHistogram(meter metric.Meter, m Metric) error {
	for _, name := range m.names() {
		made, err := meter.Float64Histogram(name, metric.WithDescription(m.Meaning),
			metric.WithExplicitBucketBoundaries(m.Buckets...))
		if err != nil {
			return err
		}
		i.histograms[m.Name] = append(i.histograms[m.Name], made)
	}
	return nil
}

func (i *instruments) addCounter(meter metric.Meter, m Metric) error {
	c := counterOf{label: m.Label, values: map[string]metric.AddOption{}}
	for _, name := range m.names() {
		made, err := meter.Int64Counter(name, metric.WithDescription(m.Meaning))
		if err != nil {
			return err
		}
		c.of = append(c.of, made)
	}
	for _, value := range m.Values {
		c.values[value] = label(m.Label, value)
		c.add(0, c.values[value])
	}
	if m.Label == "" {
		c.add(0)
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
		c.add(n, option)
	case c.label == "":
		c.add(n)
	default:
		c.add(n, label(c.label, value))
	}
}

func (i *instruments) record(name string, value float64) {
	if i != nil {
		for _, histogram := range i.histograms[name] {
			histogram.Record(context.Background(), value)
		}
	}
}

func label(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}
