// Package worldtest has a repository with its people on each of the forges that
// writ knows, behind one type, so that one test body runs on all of them.
package worldtest
