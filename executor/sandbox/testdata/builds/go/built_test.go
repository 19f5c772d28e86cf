package built

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestTwice(t *testing.T) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := 0
	for range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			sum += Twice(1)
		}()
	}
	wg.Wait()
	if sum != 100 {
		t.Error(sum)
	}
}

func TestPrograms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if out, err := exec.Command("sh", "-c", "mkdir $0 && cd $0 && git init -q . && chmod -R u+w .", dir).CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
}
