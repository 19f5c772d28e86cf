// Package stub plays a provider of models: the interfaces of those whose tables the gateway
// has, with a conversation that was written before. Nobody thinks in it, and nothing of it
// costs anything. An agent that is tried against it is the real one, and so is all that is
// between the two.
//
// It is what the tests of builders and `writ demo --builder` ask instead of a provider. The
// server itself never does.
package stub
