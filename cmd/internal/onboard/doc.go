// Package onboard gives a repository what it needs to be governed: the
// onboarding contract, the form in which people file tasks, and a short guide.
// [Open] proposes them as a pull or merge request, with nothing but the right to
// push a branch and to open one: no file lies where workflows do. What is there
// already is left as it is and named.
package onboard
