package tracing

import (
	"maps"
	"slices"
	"strings"
)

// respected are the standard variables that describe this process to a
// collector.
var respected = []string{"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"}

// ofTraces begin the standard variables that would say where traces go, which
// are made and how they are sent.
var ofTraces = []string{
	"OTEL_EXPORTER_OTLP_", "OTEL_TRACES_", "OTEL_BSP_", "OTEL_SPAN_", "OTEL_LINK_", "OTEL_EVENT_",
	"OTEL_ATTRIBUTE_", "OTEL_SDK_DISABLED", "OTEL_GO_", "OTEL_PROPAGATORS",
}

// others are the same for logs and metrics, of which writ sends none.
var others = []string{"OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_METRICS_"}

// CheckEnvironment names the standard variables that are set and that writ
// doesn't obey: a variable that somebody set and nobody reads would mislead.
// Their values are not looked at.
func CheckEnvironment(env map[string]string) []string {
	begins := func(name string, list []string) bool {
		return slices.ContainsFunc(list, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if begins(name, ofTraces) && !begins(name, others) && !slices.Contains(respected, name) && env[name] != "" {
			names = append(names, name)
		}
	}
	return names
}
