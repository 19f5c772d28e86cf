// Package tracing sends traces of what a server does to an OpenTelemetry
// collector, over OTLP/HTTP, where the operator named one.
//
// [Open] makes a [Provider]; its tracer is handed to whoever makes spans, and
// the wrappers of this package make those of the forge, of git and of builders
// around the interfaces that the supervisor takes. There are no globals, and
// without a provider nothing is wrapped.
//
// Spans: delivery (with store), task, tick (with observe, decide, record and
// act), build, checks, "forge <call>" and "git <exchange>". A span bears the ids
// of what it concerns (writ.world, writ.task, writ.run, writ.delivery); one that
// doesn't say takes them from its parent. No span holds a body, a header, a
// secret or somebody else's words: a failure is a code.
//
// A collector that hangs or is gone costs nothing but its spans. They wait in a
// queue of fixed length; what finds no room, or can't be delivered, is counted
// and gone.
package tracing
