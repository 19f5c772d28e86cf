// Package e2e drives the built program as its users do: real processes, real
// repositories, the real sandbox. It has tests only.
package e2e
