// Package forge is the neutral vocabulary for the places where work is asked
// for and delivered: GitHub, GitLab, and repositories on disk. Its adapters live
// in packages below it. Package forge/git, which every adapter shares, reads and
// writes git objects and moves refs by compare-and-swap.
//
// An adapter never imports another adapter, nor executor, nor compliance.
package forge
