// Package forge is the neutral vocabulary for the places where work is asked
// for and delivered: GitHub, GitLab, and repositories on disk. Its adapters live
// in packages below it. Package forge/git, which every adapter shares, reads and
// writes git objects and moves refs by compare-and-swap.
//
// JSON that others write is read by go-json-experiment/json, the encoding/json/v2 of Go 1.27:
// it refuses names that stand twice, invalid UTF-8 and half a surrogate, and measured as fast
// as a reader of our own, even for real payloads. Only depth is counted here.
//
// An adapter never imports another adapter, nor executor, nor compliance, but for
// compliance/lazyregexp, which knows nothing of any room.
package forge
