package kernel

// issueRemedies say what somebody can do who has the issue's page and nothing
// else, for the codes whose remedy in the table is for the operator.
var issueRemedies = []struct {
	code   Code
	remedy string
}{
	{CodeEscalationBlocked, "Read the codes beside it, mend the cause, then comment `/writ retry`, with a word to the builder behind it if you like."},
	{CodeInterruptionsSpent, "Have the operator find out why runners die, then comment `/writ retry`."},
	{CodeDispatchInvalid, "Comment `/writ retry`; if it repeats, `/writ explain` shows the reasons."},
	{CodeLockViolation, "Look at the named commit on the task's ref; `/writ retry` moves on from it."},
	{CodeExecutionResource, "Make the task smaller, or have the operator raise the named limit."},
	{CodeExecutionBudget, "Make the task smaller, or have what an attempt may use raised, by the operator of the server or in the contract."},
	{CodeExecutionContext, "Make the task smaller, or have the operator give the builder a model with a longer context."},
	{CodeBudgetSpent, "Nothing, if it is the day's, or if runs under way hold it: the task begins by itself once there is enough. Otherwise the operator of the server has to raise the named budget."},
	{CodeBudgetUnpriced, "The operator of the server has to give the model a price. Where the contract limits the cost, budgets.cost_cents can be taken out there."},
	{CodeBudgetUnmetered, "Name another builder, or take budgets.tokens and budgets.cost_cents out of the contract; or have the operator of the server give the credential of the builder's provider an api."},
	{CodeGovernanceMismatch, "Comment `/writ retry`: it runs under the contract in force."},
	{CodeTargetNotAllowed, "Have the operator add the repository to the server's configuration."},
	{CodeObserveOnly, "Write `mode: govern` in the contract, if it says `observe`; otherwise the operator has the whole server observe."},
	{CodeTaskHalted, "The operator halted it, and alone can let it go on; ask him."},
	{CodeTaskStopped, "Comment `/writ run` to approve the issue anew, as it is now."},
	{CodeSuperseded, "Nothing; comment `/writ run` if writ is to go on."},
	{CodeLeaseUntrusted, "If you trust the named key, list it in `runners` of the contract; otherwise `/writ retry` moves on."},
	{CodeStateForeign, "Somebody put the state of another task here. Find out who; `/writ retry` moves on from it, and the task begins anew."},
	{CodeStateRollback, "Somebody set this task's state back or removed it, or the forge was restored. Find out why. Put the later commit back if a clone has it; `/writ retry` moves on from what is there, and the task begins anew."},
	{CodeChangeLost, "The server lost the work. Whoever runs the server that did it may still have it; `/writ retry` has it done again."},
	{CodeInstructionChanged, "Read the issue as it is now, and comment `/writ run` to approve that."},
	{CodeSandboxUnavailable, "Nothing here: the operator has to mend the server's sandbox."},
	{CodeEgressDenied, "Have the operator allow the named host, or take it out of the check's hosts in the contract."},
	{CodeEgressUnavailable, "Nothing here: the task is taken up again by itself. If it comes again, the operator has to look at the server's log."},
	{CodeEgressLost, "Have the operator read in the server's log what ended the gateways."},
	{CodeProviderRefused, "Nothing here: the operator has to look at the account of the builder's model."},
	{CodeProviderUnavailable, "Nothing here: the task is tried again by itself."},
	{CodePrepareLevel, "Have the operator choose another level of the sandbox, or take prepare out of the contract."},
	{CodePrepareFailed, "Read the output of the step, and mend the step in the contract or what it works on on the base branch."},
	{CodePrepareUnreachable, "Nothing here: the task is taken up again by itself, once the named host answers."},
	{CodePrepareChange, "Read the output of the step: most often the change names a version that there is not, or a lock file that doesn't follow from its manifest."},
	{CodePrepareRefused, "Make this change by hand: it touches a file from which writ can't prepare safely. To have it done without that file, comment `/writ retry` with a word to the builder that says so."},
	{CodeLacksNetwork, "Have a step of `prepare` in the contract download what the check needs, or add the host to the check's `hosts`; the operator must allow it, too. The task goes on by itself when that changes."},
	{CodeLacksLoopback, "Have the operator give the checks a loopback interface, or leave the tests that listen out of the contract's check. The task goes on by itself when that changes."},
	{CodeLacksProgram, "Get the program by a step of `prepare` in the contract, or have the operator install it and resume the task. When the contract changes, the task goes on by itself."},
	{CodeLacksSpace, "Have the operator raise the named limit. The task goes on by itself then."},
	{CodeEnvRepository, "Nothing here: the operator has to look at the server's access to the repository."},
	{CodeEnvBuilder, "Name another builder of the server, or have the operator install this one."},
	{CodeEnvBuilderFailed, "Nothing here: the operator has to look at the builder."},
	{CodeEnvBuilderRequest, "Nothing here: the operator has to look at the builder. The task goes on by itself then."},
	{CodeEnvStore, "Nothing here: the operator has to look at the server's disk."},
	{CodeEnvDisk, "Nothing here: the operator has to make room on the server's disk. The task goes on by itself then."},
	{CodeEnvWorkspace, "Nothing here: the operator has to look at the server's directory of workspaces."},
	{CodeEnvLayers, "Nothing here: the operator has to look at the server's state directory, in which the layers are."},
	{CodeMachineHalted, "The operator halted it, and alone can let it go on; ask him."},
	{CodeMachineEffect, "Comment `/writ retry`; if it repeats, show the detail to the operator."},
}

// IssueRemedy is one sentence for a reader of the issue's page: what can be done
// there. It is the table's own where that one holds for everybody.
func (c Code) IssueRemedy() string {
	for _, r := range issueRemedies {
		if r.code == c {
			return r.remedy
		}
	}
	return c.Info().Remedy
}
