// Package wizard is the dialogue of `writ setup`: it finds out where an earlier set-up
// stands, takes what flags, environment and configuration say, asks a person at a
// terminal for what is missing, has package setup make it at the forge, and then uses it
// as writ serve will: it makes the labels, checks what writ may do, offers the request
// with the contract, and says how to start.
//
// Flags and exit statuses are the command's; what is made, and how it is kept, is
// package setup's.
package wizard
