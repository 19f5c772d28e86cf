// Package local is the embedded forge: repositories, accounts, issues, changes
// and a page to see them, without an account anywhere else. It takes the same
// road as the others: people act on it, it sends signed webhooks, and writ reads
// and writes it through forge.Client and git's smart HTTP.
//
// A [Store] owns one directory: forge.db (SQLite, one writer, WAL,
// synchronous=FULL) and repos/<id>.git, bare. Administration is done on the Store
// itself; [Store.As] gives a client that acts as one account, with permissions
// enforced. [Store.Handler] serves git and the page.
//
// Every change of an issue keeps the version before it, so each event in an
// issue's history has the digest of the text as it then stood. What hooks are
// told is a row written in the same transaction as what it tells of, and is sent
// in order until the receiver has answered 2xx: this forge loses nothing.
//
// It is made for one machine and for trying writ out. It is no place for
// strangers: it serves the loopback interface unless told otherwise, without TLS.
package local
