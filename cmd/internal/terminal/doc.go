// Package terminal is how a command meets a person at a terminal. A [Display] shows
// what goes on while a task runs: steps and warnings as lines that stay, and below them
// one live line. An [Asker] asks: for yes or no, for a line, for a secret that isn't
// shown while it is typed. Where nobody sits at a terminal, the display prints lines
// alone, and nothing is asked.
//
// What is shown is cleaned of secrets and of what could steer a terminal: by the display
// itself, and of questions by the function that prints them.
package terminal
