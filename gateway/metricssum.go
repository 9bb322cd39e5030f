package gateway

import (
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
)

// A figure is one number of a snapshot T as a metric.
type figure[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label []string
	value func(*T) float64
}

func counter[T any](name, help string, value func(*T) uint64) figure[T] {
	return figure[T]{describe(name, help), prometheus.CounterValue, nil, func(s *T) float64 { return float64(value(s)) }}
}

// seconds is a counter of time, or of sound.
func seconds[T any](name, help string, value func(*T) float64) figure[T] {
	return figure[T]{describe(name, help), prometheus.CounterValue, nil, value}
}

func gauge[T any](name, help string, value func(*T) float64) figure[T] {
	return figure[T]{describe(name, help), prometheus.GaugeValue, nil, value}
}

// byLabel is a family of counters with one label, each value of which is a case.
func byLabel[T any](name, help, label string, cases []labelled[T]) (all []figure[T]) {
	desc := describe(name, help, label)
	for _, c := range cases {
		all = append(all, figure[T]{desc, prometheus.CounterValue, []string{c.label}, c.value})
	}
	return all
}

type labelled[T any] struct {
	label string
	value func(*T) float64
}

// of is a case of a family that counts.
func of[T any](label string, value func(*T) uint64) labelled[T] {
	return labelled[T]{label, func(s *T) float64 { return float64(value(s)) }}
}

func emit[T any](ch chan<- prometheus.Metric, figures []figure[T], s *T) {
	for _, f := range figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s), f.label...)
	}
}

// addUp adds all whole numbers of one snapshot to those of another, at whatever depth they stand; what is none stays as it is. So a
// counter that is new is summed from its first day.
func addUp[T any](sum *T, s T) { addValues(reflect.ValueOf(sum).Elem(), reflect.ValueOf(s)) }

func addValues(sum, v reflect.Value) {
	switch v.Kind() {
	case reflect.Uint, reflect.Uint64:
		sum.SetUint(sum.Uint() + v.Uint())
	case reflect.Int, reflect.Int64:
		sum.SetInt(sum.Int() + v.Int())
	case reflect.Array:
		for i := range v.Len() {
			addValues(sum.Index(i), v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				addValues(sum.Field(i), v.Field(i))
			}
		}
	}
}
