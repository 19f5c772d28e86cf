package main

import (
	"context"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/instruction"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel/canon"
)

// maxIssueBytes bounds an issue file; the parser's own limits are lower and
// have a code of their own.
const maxIssueBytes = 1 << 20

// issueFile is a task's text in a file. Running the task approved the bytes
// that were there then; an edit afterwards is seen.
type issueFile struct {
	path     string
	actor    string
	approved canon.Digest
	time     int64  // Unix milliseconds
	title    string // as last read
	body     string
}

// readIssue reads and splits an issue file.
func readIssue(path string) (title, body string, err error) {
	data, err := installation.ReadLimited(path, maxIssueBytes)
	if err != nil {
		return "", "", problem.Usage("The issue file %s can't be read: %s.", path, problem.Cause(err))
	}
	return instruction.ParseIssueFile(data)
}

// Issue implements supervisor.Issues. A file that can't be read any more was
// not edited: what was read last stands. One that is no issue any more was.
// A task that waited when the run began is approved anew by it.
func (f *issueFile) Issue(context.Context, supervisor.Terms) (supervisor.Issue, error) {
	if data, err := installation.ReadLimited(f.path, maxIssueBytes); err == nil {
		if f.title, f.body, err = instruction.ParseIssueFile(data); err != nil {
			f.title, f.body = "", string(data)
		}
	}
	return supervisor.Issue{
		Title: f.title, Body: f.body, Actor: f.actor, Evidence: "keyboard", Approved: f.approved, Time: f.time, Anew: true,
	}, nil
}
