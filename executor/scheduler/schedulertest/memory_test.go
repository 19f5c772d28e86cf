package schedulertest_test

import (
	"testing"

	"github.com/writbot/writ/executor/scheduler/schedulertest"
)

func TestMemory(t *testing.T) {
	schedulertest.Exercise(t, func(*testing.T) schedulertest.Store { return schedulertest.NewMemory() })
}
