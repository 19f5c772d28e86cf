// Package contract reads a repository's governance contract,
// .writ/contract.yaml: what a task may do there, by whose word, and what its
// result must pass (seed 001, "Governance Contract").
//
// The contract is read at a pinned commit and its hash, the governance hash, is
// taken over the file's bytes: it is what sha256sum prints. A file that git or
// a reader could see in two ways is refused (case I11): links, LFS pointers,
// byte order marks, carriage returns, aliases, keys twice. Unknown keys are
// errors, and every key has a default: default.yaml shows those that can be
// changed. A value whose feature isn't built yet is an error, too, because whoever
// wrote it would rely on what nobody does (case I16); a value that says what is
// done anyway is accepted, such as candidates: 1.
//
// A repository without a contract gets the built-in one, whose bytes are
// default.yaml and whose hash is theirs.
package contract
