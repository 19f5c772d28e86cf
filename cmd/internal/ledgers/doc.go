// Package ledgers is what a person does with the ledgers of a state directory, and with the
// evidence that is made of them: verify them, go on with a restored store, copy it, archive
// what is old, and add up what was spent.
package ledgers
