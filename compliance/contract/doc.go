// Package contract reads a repository's governance contract,
// .writ/contract.yaml: what a task may do there, by whose word, and what its
// result must pass (seed 001, "Governance Contract"; DESIGN §4).
//
// The contract is read at a pinned commit and its hash, the governance hash, is
// taken over the file's bytes: it is what sha256sum prints. A file that git or
// a reader could see in two ways is refused (CASES I11): links, LFS pointers,
// byte order marks, carriage returns, aliases, keys twice. Unknown keys are
// errors, every key has the default that stands in default.yaml, and a key whose
// feature isn't built yet is accepted with a warning.
//
// A repository without a contract gets the built-in one, whose bytes are
// default.yaml and whose hash is theirs.
package contract
