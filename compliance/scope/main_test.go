package scope

import (
	"os"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

func TestMain(m *testing.M) { os.Exit(gittest.InMemory(m).Run()) }
