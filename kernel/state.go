package kernel

// TaskState is the state of a task. It is data that requests
// change; the seven states of the kernel itself are another type, in package
// machine, and no value of one is a value of the other.
type TaskState string

// The task's states. TaskClaimed is written in git as `aynig-state: working`.
const (
	TaskNone         TaskState = ""
	TaskOpen         TaskState = "open"
	TaskClaimed      TaskState = "claimed"
	TaskWaiting      TaskState = "waiting"
	TaskCompleted    TaskState = "completed"
	TaskRetryPending TaskState = "retry_pending"
	TaskBlocked      TaskState = "blocked"
)

// Final reports whether s may stand as task_final_state in a report: the three
// values of seed 001 and no other.
func (s TaskState) Final() bool {
	return s == TaskCompleted || s == TaskRetryPending || s == TaskBlocked
}

// What a waiting task waits for, the values of `writ-waiting-for`.
const (
	WaitMerge       = "merge"
	WaitPaths       = "paths"
	WaitPlan        = "plan"
	WaitApproval    = "approval"
	WaitBudget      = "budget"
	WaitRule        = "rule"
	WaitEnvironment = "environment"
	WaitPause       = "pause"
	WaitRepair      = "repair"
)

// Waits lists the values of `writ-waiting-for`.
func Waits() []string {
	return []string{WaitMerge, WaitPaths, WaitPlan, WaitApproval, WaitBudget, WaitRule, WaitEnvironment, WaitPause, WaitRepair}
}

// SealedWait reports whether a task that waits for this has the work of its run, which is
// over, sealed in the tree of HEAD. A later claim goes on with it.
func SealedWait(what string) bool { return what == WaitPaths || what == WaitEnvironment }

// Words at HEAD of a state ref beside those of [TaskState].
const (
	HeadWorking = "working"
	HeadStalled = "stalled"
)

// TaskStateOf maps the word at HEAD to the task's state. A stalled task is
// open again: nobody owns it.
func TaskStateOf(head string) (TaskState, bool) {
	switch head {
	case HeadWorking:
		return TaskClaimed, true
	case HeadStalled:
		return TaskOpen, true
	case string(TaskOpen), string(TaskWaiting), string(TaskCompleted), string(TaskRetryPending), string(TaskBlocked):
		return TaskState(head), true
	}
	return TaskNone, false
}

// The trailers that Writ adds to those of seed 000. The
// first six are a commit's [Stamp].
const (
	TrailerFormat = "writ-format" // [StateFormat]
	TrailerSeq    = "writ-seq"    // the last trusted commit's plus one, from 1
	TrailerWorld  = "writ-world"  // identity of the world
	TrailerRef    = "writ-ref"    // name of the state ref
	TrailerTask   = "writ-task"   // number of the task
	TrailerIssue  = "writ-issue"  // see [IssueName]; absent where the text isn't on a forge

	// TrailerWorldAct is the last act on the world's ref that the writer went by; absent
	// where there was none.
	TrailerWorldAct = "writ-world-act"

	TrailerBase          = "writ-base"            // base commit of the claim
	TrailerAttempt       = "writ-attempt"         // number of the attempt, from 1
	TrailerInterruptions = "writ-interruptions"   // interruptions so far, per approval
	TrailerNotBefore     = "writ-not-before"      // Unix seconds, UTC
	TrailerApproval      = "writ-approval"        // digest of title and body
	TrailerGovernance    = "writ-governance-hash" // contract's hash
	TrailerDispatch      = "writ-dispatch-hash"   // hash of the dispatch
	TrailerLedgerHead    = "writ-ledger-head"     // head of the writer's ledger
	TrailerWaitingFor    = "writ-waiting-for"     // one of the Wait words
	TrailerChange        = "writ-change"          // commit on the change branch
	TrailerBranch        = "writ-branch"          // commit that the change branch has from a push whose state was lost
	TrailerCodes         = "writ-codes"           // codes, separated by spaces
	TrailerPlan          = "writ-plan-hash"       // hash of the committed plan
	TrailerResumes       = "writ-resumes"         // run whose sealed work it goes on with
	TrailerRefreshes     = "writ-refreshes"       // run whose result it applies on another base
	TrailerRefreshAct    = "writ-refresh-act"     // id of the act on the forge that asked for that last
	TrailerFixes         = "writ-fixes"           // run whose result it is a revision of
	TrailerFix           = "writ-fix"             // digest of the list that the revision is for, see [FixDigest]
	TrailerRun           = "writ-run-id"          // run whose end it tells of
	TrailerAccepts       = "writ-accepts"         // id of the act on the forge that accepted its guarded paths
	TrailerAct           = "writ-act"             // id of the act on the forge that it rests on

	// TrailerRefreshInterruptions is how often runs for the act of TrailerRefreshAct were
	// interrupted. On a result it is there where that act is to be done again.
	TrailerRefreshInterruptions = "writ-refresh-interruptions"
	// TrailerRefreshWaits is what that act waits for, "paths", where nothing but a person
	// keeps it from being done again.
	TrailerRefreshWaits = "writ-refresh-waiting-for"
)
