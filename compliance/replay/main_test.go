package replay

import (
	"os"
	"testing"

	"github.com/writbot/writ/compliance/filesystem/filesystemtest"
)

func TestMain(m *testing.M) { os.Exit(filesystemtest.InMemory(m).Run()) }
