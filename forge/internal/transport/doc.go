// Package transport is the way of the adapters to a forge's API: one
// [http.RoundTripper] that keeps TLS, time and size in bounds, asks
// conditionally, paces writes, stays away while the forge wants to be left
// alone, and turns every failure into a forge.Error.
//
// It makes each request once: who calls decides about another try. It follows
// no redirect and speaks to the configured hosts only, so that a credential goes
// nowhere else. It knows no forge: what a request is for is said by a [Call] in
// its context. It waits for a turn, never for a limit of the forge to end.
package transport
