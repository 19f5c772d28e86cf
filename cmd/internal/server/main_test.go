package server

import (
	"os"
	"testing"

	"github.com/writbot/writ/executor/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.MaybeInit() // the servers of these tests start sandboxes by this binary
	os.Exit(m.Run())
}
