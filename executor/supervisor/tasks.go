package supervisor

// Kill ends every process of the live run, and returns when nothing of it runs.
// Any goroutine may call it. What became of the run is the drive's to find out.
func (t *Task) Kill() { t.kill() }

// Tasks are the tasks that the world's records know, in the order of their
// numbers.
func (s *Supervisor) Tasks() (numbers []int64) {
	s.locked(func() { numbers = s.world.Tasks() })
	return numbers
}
