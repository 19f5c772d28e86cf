package supervisor

import (
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// Kill ends every process of the live run, and returns when nothing of it runs.
// Any goroutine may call it. What became of the run is the drive's to find out.
func (t *Task) Kill() { t.worker.kill() }

// Tasks are the tasks that the world's records know, in the order of their
// numbers.
func (s *Supervisor) Tasks() (numbers []int64) {
	s.locked(func() { numbers = s.world.Tasks() })
	return numbers
}

// TaskOfChange is the task whose work a change delivers, by the world's records; 0 where
// they don't know the change.
func (s *Supervisor) TaskOfChange(number int64) (task int64) {
	s.locked(func() { task, _ = s.world.TaskOfChange(number) })
	return task
}

// View is what the world's records say of a task now; of one that they don't know
// nothing but its number.
func (s *Supervisor) View(number int64) (v kernel.TaskView) {
	s.locked(func() { v = s.world.TaskView(number) })
	return v
}

func (s *Supervisor) now() lease.Clock { return s.deps.Clock.Now() }
