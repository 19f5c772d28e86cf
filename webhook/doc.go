// Package webhook receives what forges send: it limits, checks the signature on
// the raw bytes, hands the delivery over to a durable inbox, and answers.
//
// A delivery is a hint that a task should be looked at; a look reads fresh state.
// So nothing is decided here, and a lost, late, repeated or reordered delivery
// changes nothing but the time. One thing is kept: the signed bytes of an event
// by which a person may approve are evidence of the text that was approved.
//
// The order in [Server] is fixed: limits on what is in flight, headers, size, the
// whole body, its signature, and only then is anything parsed. The answer is 2xx
// once the inbox has said that the delivery is durable, and also for events
// that are none of ours: forges switch a hook off that answers 4xx. 4xx is for
// what isn't a delivery at all, 503 for what may be sent again.
//
// [LocalHook], [GitHubHook] and [GitLabHook] each say which events they use and
// what they ignore. What a hook ignores costs time and nothing else: a push to
// the base, an edit while the receiver was down, a permission that was taken away
// is found by the sweep, and by what is asked of the forge before each effect.
//
// The package imports neither executor nor kernel/world. It never logs a body or
// a secret, and it never takes a URL, a name or a permission from a payload: a
// repository is its number, looked up in what the operator allowed.
package webhook
