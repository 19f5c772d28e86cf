// Package demo shows writ at work on one machine, without an account anywhere:
// the embedded forge with a sample repository, writ itself as a process of its
// own that is told by webhooks, builders that need no model and no network, and
// four issues that end in four ways.
//
// It starts writ's own program and kills it, which is what it shows; it has no
// part in what writ does.
package demo
