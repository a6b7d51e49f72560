package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maker makes instruments, and keeps what it has made.
type maker struct {
	meter  metric.Meter
	all    []Metric
	gauges []metric.Observable
	errs   []error
}

// made notes a metric. The caller goes on after an error: newInstruments returns it.
func (m *maker) made(kind string, of Metric, err error) {
	of.Kind = kind
	m.all = append(m.all, of)
	if err != nil {
		m.errs = append(m.errs, fmt.Errorf("make metric %s: %w", of.Name, err))
	}
}

// counter is a counter without a label.
type counter struct{ of metric.Int64Counter }

func (m *maker) counter(of Metric) counter {
	c, err := m.meter.Int64Counter(of.Name, metric.WithDescription(of.Meaning))
	m.made("counter", of, err)
	c.Add(context.Background(), 0) // it is exported from the start
	return counter{c}
}

func (c counter) add(n int) {
	if n != 0 {
		c.of.Add(context.Background(), int64(n))
	}
}

// counterBy is a counter with a label. Its values are prebuilt, so that counting an item allocates nothing.
type counterBy struct {
	of     metric.Int64Counter
	label  string
	values map[string]metric.AddOption
}

func (m *maker) counterBy(of Metric) counterBy {
	c, err := m.meter.Int64Counter(of.Name, metric.WithDescription(of.Meaning))
	m.made("counter", of, err)
	by := counterBy{c, of.Label, map[string]metric.AddOption{}}
	for _, value := range of.Values {
		by.values[value] = label(of.Label, value)
		c.Add(context.Background(), 0, by.values[value])
	}
	return by
}

func (c counterBy) add(n int, value string) {
	if n == 0 {
		return
	}
	option, known := c.values[value]
	if !known {
		option = label(c.label, value)
	}
	c.of.Add(context.Background(), int64(n), option)
}

type histogram struct{ of metric.Float64Histogram }

func (m *maker) histogram(of Metric) histogram {
	h, err := m.meter.Float64Histogram(of.Name, metric.WithDescription(of.Meaning),
		metric.WithExplicitBucketBoundaries(of.Buckets...))
	m.made("histogram", of, err)
	return histogram{h}
}

func (h histogram) record(value float64) { h.of.Record(context.Background(), value) }

// gauge is read at the time of a scrape.
type gauge struct{ of metric.Float64ObservableGauge }

func (m *maker) gauge(of Metric) gauge {
	g, err := m.meter.Float64ObservableGauge(of.Name, metric.WithDescription(of.Meaning))
	m.made("gauge", of, err)
	m.gauges = append(m.gauges, g)
	return gauge{g}
}

func (g gauge) set(o metric.Observer, value float64, labels ...metric.ObserveOption) {
	o.ObserveFloat64(g.of, value, labels...)
}

func label(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}
