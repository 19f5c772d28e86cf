// Package setup takes an operator from nothing to a forge that writ can serve:
// it makes or receives the credentials there, keeps them in files that nobody
// else can read, writes the configuration, and checks what was given by using
// it. It is the flow of `writ setup`; flags and exit statuses are the command's.
//
// It never rewrites a file that is there, and never prints a secret.
package setup
