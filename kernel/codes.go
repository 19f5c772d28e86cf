package kernel

// The failure codes of seed 001 are fixed by the seed.
const (
	CodeEscalationBlocked        Code = "execution.escalation.blocked"
	CodeVerificationFailed       Code = "execution.verification.failed"
	CodeDispatchInvalid          Code = "execution.dispatch.invalid"
	CodeDispatchNondeterministic Code = "execution.dispatch.nondeterministic"
	CodeDispatchMalformed        Code = "execution.dispatch.malformed"
	CodeLockViolation            Code = "execution.lock.violation"
	CodeTimeout                  Code = "execution.timeout"
	CodeNoOutput                 Code = "execution.no_output"
	CodeScopeViolation           Code = "execution.scope.violation"
	CodeResultInvalid            Code = "execution.result.invalid"
)

// Writ's own codes, in the same form.
const (
	CodeExecutionReported    Code = "execution.reported_failure"
	CodeExecutionExit        Code = "execution.exit_status"
	CodeExecutionResource    Code = "execution.resource"
	CodeExecutionBudget      Code = "execution.budget"
	CodeExecutionContext     Code = "execution.context_exhausted"
	CodeCheckFailed          Code = "execution.check.failed"
	CodeNondeterministic     Code = "execution.nondeterministic"
	CodeMessageInvalid       Code = "execution.message.invalid"
	CodeScopeOutside         Code = "scope.outside"
	CodeScopeFileType        Code = "scope.file_type"
	CodeScopeHardLink        Code = "scope.hard_link"
	CodeScopeMode            Code = "scope.mode"
	CodeScopeSize            Code = "scope.size"
	CodeProtectedPath        Code = "policy.protected_path"
	CodePathGuarded          Code = "policy.guarded_path"
	CodePathUnsafe           Code = "path.unsafe"
	CodeSecretDetected       Code = "secret.detected"
	CodeInstructionHidden    Code = "instruction.hidden_content"
	CodeInstructionTooLarge  Code = "instruction.too_large"
	CodeInstructionChanged   Code = "instruction.changed_after_approval"
	CodeAuthority            Code = "authority.insufficient"
	CodeAuthorityRevoked     Code = "authority.revoked"
	CodeApprovalUnproven     Code = "authority.unproven"
	CodeRecursion            Code = "recursion.self"
	CodeEventStale           Code = "event.stale"
	CodeGovernanceInvalid    Code = "governance.invalid"
	CodeGovernanceMismatch   Code = "governance.hash_mismatch"
	CodeBudgetExceeded       Code = "policy.budget_exceeded"
	CodeBudgetSpent          Code = "budget.spent"
	CodeBudgetUnpriced       Code = "budget.unpriced"
	CodeBudgetUnmetered      Code = "budget.unmetered"
	CodeTargetIneligible     Code = "target.ineligible"
	CodeObserveOnly          Code = "policy.observe_only"
	CodeActionDuplicate      Code = "action.duplicate"
	CodeActionStale          Code = "action.stale"
	CodeTaskNumberTaken      Code = "task.number_taken"
	CodeTaskNotFound         Code = "task.not_found"
	CodeTaskNotResumable     Code = "task.not_resumable"
	CodeTaskHalted           Code = "task.halted"
	CodeTaskStopped          Code = "task.stopped"
	CodeSuperseded           Code = "task.superseded_by_human"
	CodeTaskInterrupted      Code = "task.interrupted"
	CodeInterruptionsSpent   Code = "task.interruptions_exhausted"
	CodeLeaseHeld            Code = "lease.held"
	CodeLeaseLost            Code = "lease.lost"
	CodeLeaseMalformed       Code = "lease.malformed"
	CodeLeaseUntrusted       Code = "lease.untrusted"
	CodeStateForeign         Code = "state.foreign"
	CodeStateRollback        Code = "state.rollback"
	CodeChangeLost           Code = "change.lost"
	CodeBranchTaken          Code = "change.branch_taken"
	CodeBaseMoved            Code = "change.base_moved"
	CodeReviewLeftOut        Code = "review.comment_left_out"
	CodeReviewNothing        Code = "review.nothing_asked"
	CodeReviewTooLarge       Code = "review.too_large"
	CodeSandboxUnavailable   Code = "sandbox.unavailable"
	CodeEgressDenied         Code = "egress.not_allowed"
	CodeEgressUnavailable    Code = "egress.unavailable"
	CodeEgressLost           Code = "egress.lost_again"
	CodeProviderRefused      Code = "provider.refused"
	CodeProviderUnavailable  Code = "provider.unavailable"
	CodePrepareLevel         Code = "environment.prepare.unavailable"
	CodePrepareFailed        Code = "environment.prepare.failed"
	CodePrepareUnreachable   Code = "environment.prepare.unreachable"
	CodePrepareChange        Code = "execution.prepare.failed"
	CodePrepareRefused       Code = "execution.prepare.refused"
	CodeLacksNetwork         Code = "environment.check.network"
	CodeLacksLoopback        Code = "environment.check.loopback"
	CodeLacksProgram         Code = "environment.check.program"
	CodeLacksSpace           Code = "environment.check.space"
	CodeEnvRepository        Code = "environment.repository.unavailable"
	CodeEnvBase              Code = "environment.base.unusable"
	CodeEnvGovernance        Code = "environment.governance.unreadable"
	CodeEnvBuilder           Code = "environment.builder.missing"
	CodeEnvBuilderFailed     Code = "environment.builder.failed"
	CodeEnvBuilderRequest    Code = "environment.builder.request_denied"
	CodeEnvStore             Code = "environment.store.unavailable"
	CodeEnvState             Code = "environment.state_dir"
	CodeEnvWorkspace         Code = "environment.workspace.unavailable"
	CodeEnvLayers            Code = "environment.layers.unavailable"
	CodeEnvDisk              Code = "environment.disk.low"
	CodeEnvKey               Code = "environment.key.missing"
	CodeEnvKeyUnusable       Code = "environment.key.unusable"
	CodeStateInUse           Code = "state.in_use"
	CodeStateUnanswered      Code = "state.unanswered"
	CodeAddress              Code = "environment.address.unavailable"
	CodePushRefused          Code = "forge.push_refused"
	CodeForgeUnable          Code = "forge.unable"
	CodeForgeRefused         Code = "forge.refused"
	CodeForgeUnreachable     Code = "forge.unreachable"
	CodeForgeCredential      Code = "forge.credential"
	CodeRedirectRefused      Code = "git.redirect_refused"
	CodeGitBudget            Code = "git.budget"
	CodeURLInvalid           Code = "git.url_invalid"
	CodeRefInvalid           Code = "git.ref_invalid"
	CodeCommitAmbiguous      Code = "commit.ambiguous"
	CodeLedgerFork           Code = "ledger.fork"
	CodeLedgerCorrupt        Code = "ledger.corrupt"
	CodeLedgerUnavailable    Code = "ledger.unavailable"
	CodeLedgerRollback       Code = "ledger.rollback"
	CodeLedgerOtherKey       Code = "ledger.other_key"
	CodeLedgerArchived       Code = "ledger.archived"
	CodeWorldRollback        Code = "world.rollback"
	CodeWorldFork            Code = "world.fork"
	CodeWorldMemory          Code = "world.memory"
	CodeWorldElsewhere       Code = "world.elsewhere"
	CodeKeyUnfinished        Code = "key.unfinished"
	CodeKeyOver              Code = "key.over"
	CodeEvidenceTooLarge     Code = "evidence.too_large"
	CodeEvidenceGap          Code = "evidence.gap"
	CodeEvidenceInvalid      Code = "evidence.invalid"
	CodeConfigInvalid        Code = "config.invalid"
	CodeEffectUnknown        Code = "effect.unknown"
	CodePlanInvalid          Code = "plan.invalid"
	CodeNoInterpretation     Code = "plan.no_interpretation"
	CodeContradictionsBudget Code = "plan.contradictions_exceeded"
	CodeReplayVersion        Code = "replay.version_mismatch"
	CodeEvidenceRedacted     Code = "evidence.redacted"
	CodeLeaseUnwritable      Code = "lease.unwritable"
	CodeLeasePolicy          Code = "lease.policy_invalid"
	CodeCommitUntrusted      Code = "commit.untrusted"
	CodeMachineRequest       Code = "machine.request.malformed"
	CodeMachineModified      Code = "machine.request.modified"
	CodeMachineVerdict       Code = "machine.verdict.malformed"
	CodeMachineEffect        Code = "machine.effect.failed"
	CodeMachineFatal         Code = "machine.fatal"
	CodeMachinePanic         Code = "machine.panic"
	CodeMachineBoot          Code = "machine.boot.failed"
	CodeMachineHalted        Code = "machine.halted"
	CodeMachineCrashed       Code = "machine.crashed"
	CodeTargetNotAllowed     Code = "target.not_allowed"
	CodeSecretEmpty          Code = "config.secret.empty"
	CodeSigMissing           Code = "webhook.sig.missing"
	CodeSigAlgo              Code = "webhook.sig.algo"
	CodeSigMalformed         Code = "webhook.sig.malformed"
	CodeSigMismatch          Code = "webhook.sig.mismatch"
	CodeSigStale             Code = "webhook.sig.stale"
	CodeSigProject           Code = "webhook.sig.project"
	CodeDeliveryInvalid      Code = "webhook.delivery.invalid"
	CodeHeaderTimeout        Code = "webhook.header.timeout"
	CodeBodyTimeout          Code = "webhook.body.timeout"
	CodeBodyTooLarge         Code = "webhook.body.too_large"
	CodeBodyType             Code = "webhook.body.type"
	CodeBodyEncoding         Code = "webhook.body.encoding"
	CodeBodyDepth            Code = "webhook.body.depth"
	CodeBodyDuplicate        Code = "webhook.body.duplicate"
	CodeBodyMalformed        Code = "webhook.body.malformed"
	CodeEventMismatch        Code = "webhook.event.mismatch"
	CodeEventUnused          Code = "webhook.event.unused"
	CodeWebhookBusy          Code = "webhook.busy"
	CodeWebhookStore         Code = "webhook.store.unavailable"
	CodeWebhookNotFound      Code = "webhook.not_found"
	CodeWebhookHost          Code = "webhook.host"
	CodeWebhookMethod        Code = "webhook.method"
	CodeWebhookPanic         Code = "webhook.panic"
	CodeWebhookInternal      Code = "webhook.internal"
)

// codeTable is the one table of failure codes. Its order is the order of every
// list of codes: what ended the task first, then the umbrella, then finer ones.
var codeTable = []CodeInfo{
	{CodeEscalationBlocked, "The budget of attempts or interruptions is spent, or a person has to do the work, and the task is blocked.", CountsNothing, "Read the codes beside it, mend the cause, then run `writ task resume`."},
	{CodeInterruptionsSpent, "The task was interrupted more often than budgets.interruptions allows.", CountsNothing, "Find out why runners die or lose their lease, then run `writ task resume`."},
	{CodeVerificationFailed, "A dispatched execution was not accepted.", CountsAttempt, "Read the finer codes beside it."},
	{CodeDispatchInvalid, "The dispatch is not admissible: no claim of ours, no approved text, or a contract that is not the pinned one.", CountsNothing, "Run the task again; if it repeats, read the reasons."},
	{CodeDispatchNondeterministic, "The instruction has ambiguous or optional wording, or two builds of the dispatch differ.", CountsNothing, "Replace the named words by what exactly is wanted."},
	{CodeDispatchMalformed, "A required field of the task is missing or wrong.", CountsNothing, "Add or correct the named fields in the task block or the contract's defaults."},
	{CodeLockViolation, "Somebody else moved the state ref, or a second execution of the task was started.", CountsInterruption, "Look at the named commit; `writ task resume` moves on from it."},
	{CodeTimeout, "The builder or a check did not start or end in time.", CountsAttempt, "Make the task smaller or raise budgets.start_timeout, budgets.build_timeout or budgets.idle_timeout."},
	{CodeNoOutput, "The builder ended without a result where one is owed, or changed nothing.", CountsAttempt, "Read the builder's output; check that the instruction asks for a change."},
	{CodeScopeViolation, "The change is not within the allowed scope.", CountsAttempt, "Read the finer codes and paths; widen allowed_files only if the change is wanted."},
	{CodeResultInvalid, "The builder's result is malformed or says something else than what was found.", CountsAttempt, "Mend the builder: the result format is in the documentation of package executor."},
	{CodeExecutionReported, "The builder itself reported failure.", CountsAttempt, "Read the builder's log in the report."},
	{CodeExecutionExit, "The builder ended with a non-zero exit status or by a signal.", CountsAttempt, "Read the builder's output in the report."},
	{CodeExecutionResource, "The builder or a check went over a limit of the sandbox and was killed.", CountsAttempt, "Raise the named limit in the server's configuration, or make the task smaller."},
	{CodeExecutionBudget, "The builder reached what one of its attempts may use of models, in tokens or money, and was ended.", CountsAttempt, "Make the task smaller, or raise builders.NAME.budget of the server's configuration, or budgets.tokens or budgets.cost_cents of the contract, whichever it names."},
	{CodeExecutionContext, "The builder failed when its work was longer than the context of its model, by the provider's last answer.", CountsAttempt, "Make the task smaller, or give the builder a model with a longer context: `model` of builders.NAME in the server's configuration. For work with an agent of your own, have it shorten what it sends."},
	{CodeCheckFailed, "A check of the contract failed on the proposed change.", CountsAttempt, "Read the check's output in the report."},
	{CodeNondeterministic, "A repeated check contradicted itself on the same tree.", CountsAttempt, "Mend the unstable check."},
	{CodeMessageInvalid, "The commit message does not match the contract's pattern.", CountsAttempt, "Make commit.template and commit.pattern of the contract agree."},
	{CodeScopeOutside, "A path outside allowed_files was changed.", CountsAttempt, "Add the path to allowed_files if the change is wanted."},
	{CodeScopeFileType, "A symbolic link, gitlink, device, socket or pipe was made or changed.", CountsAttempt, "Only regular files can be delivered."},
	{CodeScopeHardLink, "A file has more than one hard link.", CountsAttempt, "Only files with a single link can be delivered."},
	{CodeScopeMode, "A file has a mode that git can't store, such as setuid.", CountsAttempt, "Only modes 644 and 755 can be delivered."},
	{CodeScopeSize, "The change has more files or bytes than its budget.", CountsAttempt, "Raise budgets.files or budgets.bytes, or make the task smaller."},
	{CodeProtectedPath, "A protected path was named or changed.", CountsAttempt, "Protected paths need an entry in paths.unprotect of the contract."},
	{CodePathGuarded, "A guarded path was changed, and nobody has accepted what it holds now.", CountsNothing, "Read the change of it, then comment the line that the issue shows, `/writ accept` with its digest, or `/writ reject`."},
	{CodePathUnsafe, "A path is unsafe: absolute, with .., control characters, or equal to another one on some file system.", CountsAttempt, "Rename the path."},
	{CodeSecretDetected, "A changed file, or the issue itself, holds a secret that writ was given, or the value of a variable under `redact`.", CountsAttempt, "Keep the secret from the builder, and its value out of files and issue; replace one that an issue shows. Nothing that holds it was pushed."},
	{CodeInstructionHidden, "The issue has characters that a reader can't see.", CountsNothing, "Remove the named characters."},
	{CodeInstructionTooLarge, "The issue's text is larger than the limit.", CountsNothing, "Shorten the issue; nothing is cut silently."},
	{CodeInstructionChanged, "The issue was changed after its approval.", CountsNothing, "Approve the issue again as it is now."},
	{CodeAuthority, "Who approved the task may not do so.", CountsNothing, "Let somebody with the contract's permission approve."},
	{CodeAuthorityRevoked, "Who approved the task lost the permission to do so before it was dispatched.", CountsNothing, "Let somebody with the contract's permission approve."},
	{CodeApprovalUnproven, "Which text was approved can't be shown.", CountsNothing, "Read the issue as it is now and comment `/writ approve` with the digest in the detail."},
	{CodeRecursion, "It was writ itself, which approves nothing.", CountsNothing, "Let a person approve."},
	{CodeEventStale, "What the event told of doesn't hold any more.", CountsNothing, "Nothing: writ acts on how things stand now."},
	{CodeGovernanceInvalid, "The governance contract can't be used.", CountsNothing, "Run `writ contract lint` and mend the named keys."},
	{CodeGovernanceMismatch, "The contract is not the one that was pinned at the claim.", CountsNothing, "Run the task again under the contract in force."},
	{CodeBudgetExceeded, "The contract asks for more than the server's caps allow.", CountsNothing, "Lower the named budget or let the operator raise the cap."},
	{CodeBudgetSpent, "The budget of the task, of its repository or of the day has less left than one attempt may use.", CountsNothing, "Nothing, if it is the day's, or if runs under way hold it: the task begins by itself once there is enough. Otherwise raise the named key of the server's configuration, which a running server takes in by itself."},
	{CodeBudgetUnpriced, "What an attempt may cost is limited, and there is no price for the model that it asks for.", CountsInterruption, "Add the model to prices.models of the server's configuration, or take the named key out: budget.cost of the builder's, or budgets.cost_cents of the contract. The task is tried again by itself."},
	{CodeBudgetUnmetered, "The contract limits what an attempt may use of models, and nobody meters what the builder uses.", CountsNothing, "Give the credential of the builder's provider an api in the server's configuration, name another builder, or take the named key out of the contract. The task is tried again by itself."},
	{CodeTargetIneligible, "The repository, ref or issue can't be governed.", CountsNothing, "Read the detail; name another repository or issue."},
	{CodeObserveOnly, "Contract or operator let writ look and say what it would do, and nothing else.", CountsNothing, "Write `mode: govern` in the contract, or take `server.observe` out of the server's configuration."},
	{CodeTaskNumberTaken, "Another issue's task has this number.", CountsNothing, "Give another --number."},
	{CodeActionDuplicate, "The act was accepted before: of one person and key one counts.", CountsNothing, "Nothing has to be done. To do it once more, say it again."},
	{CodeActionStale, "The act was made for the world as it doesn't stand any more: for another round, another epoch of the task or another commit at its ref.", CountsNothing, "Look at how the task stands by now, and say again what is to be done."},
	{CodeTaskNotFound, "The repository has no issue with this number, and nothing was recorded of such a task.", CountsNothing, "Give the number of an issue; where the server has several repositories, --world too."},
	{CodeTaskNotResumable, "There is nothing to resume: no halt, no block, and nobody else's commit holds the task back; or somebody's live lease does.", CountsNothing, "`writ task show N` says how the task stands. To start it, approve its issue."},
	{CodeTaskHalted, "The task's kernel is halted.", CountsNothing, "Look into the reason, then run `writ task resume`."},
	{CodeTaskStopped, "A person stopped the run.", CountsNothing, "Run the task again to approve it anew, or have somebody with the permission comment `/writ run` on its issue."},
	{CodeSuperseded, "A person closed, relabelled or took over the issue, and has the last word.", CountsNothing, "Nothing; approve the issue anew if writ is to go on."},
	{CodeTaskInterrupted, "The run ended before its result, through a shutdown or a crash.", CountsInterruption, "Nothing: the task is taken up again by itself."},
	{CodeLeaseHeld, "Another runner holds the lease of this task.", CountsNothing, "Wait until the lease ends; it is taken over if its holder is dead."},
	{CodeLeaseLost, "The lease was taken over or could not be renewed in time.", CountsInterruption, "Nothing: the owner at HEAD goes on."},
	{CodeLeaseMalformed, "HEAD of the branch is no state event.", CountsNothing, "Push a commit with exactly one aynig-state trailer."},
	{CodeLeaseUntrusted, "HEAD carries a result or approval by a key that isn't listed.", CountsNothing, "If you trust the named key, list it in runners of the contract or trusted_runners of the configuration; otherwise `writ task resume` moves on."},
	{CodeStateForeign, "HEAD of the state ref was made for another repository, ref, task or issue, and copied here.", CountsNothing, "Find out who put it there: operations.md, \"State that was set back, removed or copied\". `writ task resume` moves on from it."},
	{CodeStateRollback, "The state ref was set back, removed, or has two histories.", CountsNothing, "Find out who moved it: operations.md, \"State that was set back, removed or copied\". Put the later commit back if a clone has it, or move on from what is there with `writ task resume`."},
	{CodeChangeLost, "The server took an accepted result without its change branch, and nobody has the commit any more.", CountsNothing, "Start the installation that made the result: it pushes the branch again, if its state directory keeps it. Or push the commit that the detail names to that branch, if somebody has it. Or have the work done again with `writ task resume`."},
	{CodeBaseMoved, "The base moved, and changed the same lines as the delivered work, lines beside them, or a file that isn't merged by lines: what was verified doesn't apply there.", CountsNothing, "Merge by hand and look at what comes of it. Or, while the contract is the same, have the change adapted with `/writ fix` and what should be different, which stays on its old base: `/writ refresh` applies it once it leaves those lines alone, or has them as the base has. Or close the change unmerged, delete its branch, and have the work done anew with `/writ retry`."},
	{CodeReviewLeftOut, "A comment on a delivered change doesn't count for `/writ fix`.", CountsNothing, "Read the reason. Who may approve the task can say it in a new comment, and leave that unedited."},
	{CodeReviewNothing, "`/writ fix` asks for nothing: no comment on the delivered change counts, and no text follows the command.", CountsNothing, "Comment on the change what is to be different, or say it behind the command."},
	{CodeReviewTooLarge, "The comments on a delivered change are more, or longer, than one revision takes.", CountsNothing, "Resolve the comments that are settled, and ask again; nothing is cut silently."},
	{CodeBranchTaken, "A branch has the name of the change branch, or a ref has a name beside which git can't have one of the task's own.", CountsNothing, "Delete or rename the ref that the detail names. The task goes on by itself at the next sweep, or at once where a webhook tells of it."},
	{CodeSandboxUnavailable, "No sandbox can be started on this machine.", CountsNothing, "Install bubblewrap and allow user namespaces; the detail has the commands."},
	{CodeEgressDenied, "A check asks for a host that this installation doesn't let it reach.", CountsNothing, "Allow it with checks.egress of the server's configuration, and with egress of the repository under worlds where that section is; or take it out of the check's hosts in the contract."},
	{CodeEgressUnavailable, "The gateway, a sandbox's only way out, ended before the program.", CountsNothing, "Nothing: the task is taken up again by itself. If it comes again, read the detail and the server's log."},
	{CodeEgressLost, "The programs of this task lost their gateway again and again: either this server fails, or one of them ends it.", CountsInterruption, "Read in the server's log what ended the gateways. Where nothing on this server did, one of the programs has: report that."},
	{CodeProviderRefused, "The provider of the builder's model doesn't take the key that this installation has for it, or the account has nothing left.", CountsInterruption, "Look at the key and at the account: the variable stands in the builder's egress, as credential.secret. The task is tried again by itself."},
	{CodeProviderUnavailable, "The provider of the builder's model can't be reached, or takes no requests for now.", CountsInterruption, "Nothing, if it passes: the task is tried again by itself. If it comes again, look at the provider's state, and at the limits of the account."},
	{CodePrepareLevel, "The contract has a preparation, and the level of this installation's sandbox can't show what it leaves.", CountsNothing, "Set sandbox: bubblewrap in the server's configuration, or take prepare out of the contract."},
	{CodePrepareFailed, "A step of the contract's preparation failed on the base, or over a host that a change asks for and that didn't answer.", CountsInterruption, "Read the step's output. Mend the step in the contract, or on the base branch what it works on; `writ cache ls` shows what was prepared before."},
	{CodePrepareUnreachable, "A step of the preparation failed, and a host that it asked for didn't answer.", CountsNothing, "Nothing, if the host comes back: the task is taken up again by itself, and no builder is started before. Otherwise look at the named host."},
	{CodePrepareChange, "A step of the preparation failed with the key files of the change.", CountsAttempt, "Read the step's output: most often the change names a version that there is not, or a lock file that doesn't follow from its manifest."},
	{CodePrepareRefused, "The change touches a file of the preparation that can't be prepared from safely: the task waits for a person.", CountsAttempt, "Have a person make this change, or write the download of the preparation with a command that runs nothing of what a manifest names (docs/dependencies.md, \"A change of dependencies\") and run `writ task resume`."},
	{CodeLacksNetwork, "A check failed for want of a host that it can't reach, and fails so on the base as well.", CountsInterruption, "Have a step of prepare in the contract download what the check needs, or add the host to the check's hosts; checks.egress of the server's configuration must allow it. The task goes on by itself when contract, base or configuration change."},
	{CodeLacksLoopback, "A check failed for want of a socket, and fails so on the base as well.", CountsInterruption, "Set sandbox: bubblewrap and checks.loopback: true in the server's configuration, or leave the tests that listen out of the contract's check. The task goes on by itself when contract, base or configuration change."},
	{CodeLacksProgram, "A check failed for want of a program, and fails so on the base as well.", CountsInterruption, "Install the program on writ's machine, show it with checks.ro of the server's configuration, or get it by a step of prepare in the contract. Then restart writ or run `writ task resume`; where contract, base or configuration change, the task goes on by itself."},
	{CodeLacksSpace, "A check reached a limit of its room, and does so on the base as well.", CountsInterruption, "Raise the named limit in the server's configuration, or make room on its disk. The task goes on by itself when contract, base or configuration change."},
	{CodeEnvRepository, "The repository can't be read.", CountsNothing, "Mend what the detail names: the path, the URL, a permission, or a first commit that is missing."},
	{CodeEnvBase, "The base branch holds a tree that can't be worked on.", CountsNothing, "Mend the named path on the base branch. Tasks are looked at again when the branch moves, and every hour."},
	{CodeEnvGovernance, "The contract file can't be read at the pinned commit.", CountsNothing, "Check that the file is a regular file on the base branch."},
	{CodeEnvBuilder, "The builder's program is not there.", CountsNothing, "Install the program or correct the builder's argv; it must be visible in the sandbox."},
	{CodeEnvBuilderFailed, "The builder's program could not be started.", CountsInterruption, "Read the detail; run the program by hand in the sandbox."},
	{CodeEnvBuilderRequest, "The agent asks its provider for what the gateway's table doesn't let through.", CountsNothing, "Add the row that the detail names to credential.allow of the provider's host (docs/egress.md, \"What the table doesn't know\"), or install the tested version. Where it names none, only the tested version is left."},
	{CodeEnvStore, "The store can't be opened or written.", CountsNothing, "Mend what the detail names. `writ doctor` looks at the state directory, its file system and the store."},
	{CodeEnvState, "The state directory can't be used.", CountsNothing, "Mend what the detail names. About permissions: the directory must belong to the user that runs writ, with mode 700, and the files in it with mode 600."},
	{CodeEnvWorkspace, "A workspace can't be made, read or written.", CountsNothing, "Mend what the detail names: most often the file system of the workspaces is read-only or gone, or its directory belongs to another user than the one that runs writ."},
	{CodeEnvLayers, "A layer, which keeps a base or what was prepared for the next run, can't be made or read.", CountsNothing, "Mend what the detail names: most often the file system of the state directory is read-only. `writ cache rm --state-dir DIR --all` empties the layers; they are made again."},
	{CodeEnvDisk, "The file system of the workspaces has less free than its reserve.", CountsNothing, "Make room there, or lower limits.disk_reserve. Tasks go on by themselves then."},
	{CodeEnvKey, "The installation's signing key is not there.", CountsNothing, "Put `key` and `key.pub` back from where you keep them; where nothing ran yet, the first start makes them. If there is no copy, start with a new state directory, and list the old public key in trusted_runners: operations.md, \"Keys\"."},
	{CodeEnvKeyUnusable, "The installation's signing key can't be read, made or used.", CountsNothing, "Mend what the detail names: `key` is a regular file of the user that runs writ, with mode 600, an OpenSSH ed25519 key without a passphrase."},
	{CodeStateInUse, "Another process uses this state directory.", CountsNothing, "Look at the named process: `ps -fp PID`. If it is the writ that is meant, leave it; else end it, or give another --state-dir. A process that is gone holds nothing."},
	{CodeStateUnanswered, "The process that has the state directory gave no answer in time.", CountsNothing, "It may be waiting for the network: try again. To end it, send it SIGTERM, which gives its leases back; a second one kills it."},
	{CodeAddress, "The address can't be listened on.", CountsNothing, "Find out who has it with `ss -ltnp`, or give a free one (server.listen, --listen)."},
	{CodePushRefused, "The server refused the push by a rule of its own.", CountsNothing, "Change the named rule or the permission; the server's words are in the detail. The task waits, what was judged is kept, and it is tried again at least hourly."},
	{CodeForgeUnable, "The repository's server can't take a push now, or can't be read.", CountsNothing, "Look at the server's disk, state and log; its words are in the detail and in /readyz. Judged work is kept, nothing is counted, and everything goes on by itself within a minute of the server's recovery."},
	{CodeForgeRefused, "The forge refused a comment, a label, a change or the closing of the issue.", CountsNothing, "Read the forge's words in the detail; most often a permission is missing."},
	{CodeForgeCredential, "The forge doesn't take writ's credential.", CountsNothing, "Check that the variable holds the token of writ's own account at this very forge, that it still counts there, and for an App that it is installed on the repository."},
	{CodeForgeUnreachable, "The repository's server can't be reached.", CountsInterruption, "Check network and URL; the task is tried again by itself."},
	{CodeRedirectRefused, "The server redirects to another host.", CountsNothing, "Use the final URL; credentials never follow a redirect."},
	{CodeGitBudget, "What the repository's server sends is more than writ takes at a time.", CountsNothing, "It is a limit of writ's own, not the server's, and no key changes it. See what the server sends, or have this server govern fewer repositories. It is tried again by itself."},
	{CodeURLInvalid, "The repository's URL is not allowed.", CountsNothing, "Use a path, or a file, https, http or ssh URL."},
	{CodeRefInvalid, "A ref name is not allowed.", CountsNothing, "Use a plain branch name."},
	{CodeCommitAmbiguous, "A commit object can be read in two ways.", CountsNothing, "Have the commit written again by git."},
	{CodeLedgerFork, "Another process appended to the ledger.", CountsNothing, "Run one writ per state directory; find the other one with `ps -ef`."},
	{CodeLedgerCorrupt, "The ledger does not verify.", CountsNothing, "Stop, and copy the whole state directory away. `writ verify --state-dir DIR` names the first bad record. Then restore a back-up and run `writ ledger adopt`: operations.md, \"Back-up and restore\"."},
	{CodeLedgerUnavailable, "A record could not be made durable.", CountsNothing, "Check the disk, then start again; nothing happened without its record."},
	{CodeLedgerOtherKey, "The ledger was written with another key than the installation has now.", CountsNothing, "Put `key` and `key.pub` back that wrote it, from where you keep them, or the state directory that belongs to this key: operations.md, \"Keys\"."},
	{CodeLedgerArchived, "Records are needed that were archived, and their files aren't where they were put.", CountsNothing, "Bring the archive back to its directory; or, where it lies elsewhere now, name it: `writ verify --archive DIR`, `writ ledger archive --state-dir STATE DIR`."},
	{CodeLedgerRollback, "The ledger is older than its checkpoint outside, or than a state commit that its key signed; or another copy of the state directory is in use.", CountsNothing, "Stop the other copy, or restore the newer store. If it is lost, `writ ledger adopt` goes on with this one and says so for all time, with --head where a state commit is named: operations.md, \"Back-up and restore\"."},
	{CodeWorldRollback, "The ref of the world's acts lacks some that were seen there.", CountsNothing, "Nothing has to be done: what was seen counts, and a server puts it back by itself, as do `writ world repair` and the next act that is written. Look at who may set refs back. Where a state commit names an act that this installation never saw, it decides nothing until somebody who saw it puts it back, or `writ world repair` goes on without it. In `writ verify`: fetch that ref, too, or have an installation that saw the act put it back."},
	{CodeWorldFork, "The ref of the world's acts contradicts what was seen there.", CountsNothing, "Look at both with `writ world log`. `writ world repair` goes on with what is there now; then do again what it lacks."},
	{CodeWorldMemory, "What was seen of the world's acts can't be read or kept.", CountsNothing, "Check the disk and the state directory. If the file is damaged, restore it from a back-up; without it, a roll-back of that ref isn't noticed."},
	{CodeWorldElsewhere, "The state of this repository is bound to another world, or not to the one that was named.", CountsNothing, "If it was moved or imported: `writ world rebind OLD NEW`. Where only the name is known, run it where the forge is configured, or by the path of the repository."},
	{CodeKeyUnfinished, "The replacement of the installation's key was interrupted.", CountsNothing, "Run `writ key rotate` again: it finishes what was begun."},
	{CodeKeyOver, "The installation's own key was revoked or replaced in this repository.", CountsNothing, "`writ world log` says by whom and why. If another process of this installation has replaced it, start this one again. Otherwise `writ key rotate` gives this installation another key; whoever lists the old one then lists that instead. Nothing is claimed, built or pushed until then."},
	{CodeEvidenceTooLarge, "The evidence is larger than its cap.", CountsNothing, "Nothing: the streams were cut and their hashes kept."},
	{CodeEvidenceGap, "A holder died, and another instance took its task over: what it recorded since its last commit is lost to a verification.", CountsNothing, "Nothing, where it is shown of another run than the one whose work was accepted. Of that one the evidence is not whole: don't trust the result; let the work be done again."},
	{CodeEvidenceInvalid, "An evidence pack does not verify.", CountsNothing, "Look at the first bad record that is named."},
	{CodeConfigInvalid, "The configuration or command line can't be used.", CountsNothing, "Correct the named key or flag; `writ config reference` and --help have them all."},
	{CodeReplayVersion, "The evidence was written by a kernel version that this program can't replay.", CountsNothing, "Verify it with the named version."},
	{CodeEvidenceRedacted, "Part of the evidence is kept as hashes only.", CountsNothing, "Ask the instance that wrote it for the bytes."},
	{CodeLeaseUnwritable, "A message of a state commit can't be written so that it reads back.", CountsNothing, "Shorten the issue or take the named line out of it."},
	{CodeLeasePolicy, "The lease times of the configuration don't fit together.", CountsNothing, "Correct the lease section of the configuration."},
	{CodeCommitUntrusted, "A commit's signature is good, but its key isn't listed.", CountsNothing, "List the key if you trust it."},
	{CodeMachineRequest, "A request of the kernel lacks a field or is too large.", CountsNothing, "Report it; the detail names the field."},
	{CodeMachineModified, "A request was changed while it was judged.", CountsNothing, "Report it; the kernel halted."},
	{CodeMachineVerdict, "The kernel's verdict can't be used.", CountsNothing, "Report it; the kernel halted."},
	{CodeMachineEffect, "An effect failed without a code of its own.", CountsInterruption, "Read the detail."},
	{CodeMachineFatal, "The kernel met an error that it can't go on after.", CountsNothing, "Read the detail; start again once it is mended."},
	{CodeMachinePanic, "The kernel met a fault of its own and halted.", CountsNothing, "Report it with the named place; start again."},
	{CodeMachineBoot, "The kernel could not be started.", CountsNothing, "Read the detail; mend the configuration or the store."},
	{CodeMachineHalted, "A person or a policy halted the kernel.", CountsNothing, "Look into the reason, then run `writ task resume`."},
	{CodeMachineCrashed, "A process ended in the middle of a request.", CountsNothing, "Nothing: the effect is looked up by its key."},
	{CodeEffectUnknown, "The outcome of an effect is unknown.", CountsInterruption, "Nothing: it is looked up before anything is tried again."},
	{CodePlanInvalid, "The plan does not verify.", CountsNothing, "Read the named step."},
	{CodeNoInterpretation, "Nobody proposed an interpretation of the issue.", CountsNothing, "Name allowed_files and expected_outcome."},
	{CodeContradictionsBudget, "The proposed interpretations contradict each other more than the budget allows.", CountsNothing, "Write the issue more precisely or raise budgets.contradictions."},
	{CodeTargetNotAllowed, "The repository is not in the allow-list of the server's configuration, or was moved out of it.", CountsNothing, "Add it to `repositories` of its forge (`forges.github`, `forges.gitlab`, `forges.local`) in the server's configuration, which a running server takes in by itself; or take the hook off the repository."},
	{CodeSecretEmpty, "A secret that the configuration names is not there, or empty.", CountsNothing, "Set the named variable, or the one with _FILE at its end to the path of a file that holds the secret; without it writ doesn't start."},
	{CodeSigMissing, "A delivery has no signature.", CountsNothing, "Give the hook the secret of the server's configuration."},
	{CodeSigAlgo, "A delivery is signed with something else than HMAC-SHA256.", CountsNothing, "Send X-Hub-Signature-256, from GitLab v1 in webhook-signature; SHA-1 is not accepted."},
	{CodeSigMalformed, "A delivery's signature can't be read, or there are several.", CountsNothing, "Send one header: sha256= and 64 lower-case hexadecimal digits, from GitLab v1, and base64."},
	{CodeSigMismatch, "A delivery's signature or token is not the one that belongs to its bytes.", CountsNothing, "Give the hook the server's secret; nothing between the two may change the body."},
	{CodeSigStale, "A delivery was signed more than five minutes ago, or ahead of time.", CountsNothing, "Set the clocks of the forge and of this machine right; if they are, somebody repeats old deliveries."},
	{CodeSigProject, "A delivery tells of a project that its secret isn't bound to.", CountsNothing, "Give the hook of each project the secret that `forges.gitlab.hooks` binds to it; if they have them, somebody who knows one project's secret speaks for another."},
	{CodeDeliveryInvalid, "A delivery has no id, several, or one that is no id.", CountsNothing, "Send the forge's delivery header once."},
	{CodeHeaderTimeout, "The head of a request did not arrive in time.", CountsNothing, "Send it faster; look at the network or proxy between."},
	{CodeBodyTimeout, "The body of a delivery did not arrive in time.", CountsNothing, "Send it faster; look at the network or proxy between."},
	{CodeBodyTooLarge, "The body of a delivery is larger than the limit.", CountsNothing, "Raise the webhook's body limit in the server's configuration, if the event is wanted."},
	{CodeBodyType, "A delivery's content type is not application/json.", CountsNothing, "Set the hook's content type to application/json."},
	{CodeBodyEncoding, "A delivery's body is compressed or encoded.", CountsNothing, "Send it without Content-Encoding."},
	{CodeBodyDepth, "The JSON of a delivery is nested deeper than the limit.", CountsNothing, "Nothing: no forge sends such a thing."},
	{CodeBodyDuplicate, "The JSON of a delivery has one key twice in an object.", CountsNothing, "Nothing: no forge sends such a thing."},
	{CodeBodyMalformed, "The body of a delivery is no JSON object of the expected form.", CountsNothing, "Read the detail; look at what changes the body on its way."},
	{CodeEventMismatch, "A delivery's body is not of the event that its header names.", CountsNothing, "Nothing, if it was a test; else somebody repeats old deliveries under other headers."},
	{CodeEventUnused, "A delivery is of an event that concerns no task.", CountsNothing, "Nothing; the hook may send fewer kinds of events."},
	{CodeWebhookBusy, "The receiver has as many deliveries in flight as it may.", CountsNothing, "Send it again after the time in Retry-After."},
	{CodeWebhookStore, "A delivery could not be made durable in time.", CountsNothing, "Send it again after the time in Retry-After; the operator looks at the store's disk."},
	{CodeWebhookNotFound, "There is nothing at this address.", CountsNothing, "Correct the hook's URL; hooks end in /hooks/ and the forge's name."},
	{CodeWebhookHost, "A page was asked for under a name that isn't this server's.", CountsNothing, "Ask under an address or localhost, or list the name in server.hosts."},
	{CodeWebhookMethod, "This address doesn't answer to this method.", CountsNothing, "Deliveries are sent with POST, pages and states read with GET."},
	{CodeWebhookPanic, "The receiver met a fault of its own in this request.", CountsNothing, "Report it with the log's line; the process goes on."},
	{CodeWebhookInternal, "The receiver could not answer this request.", CountsNothing, "Read the log's line with this code."},
}
