// Command demo shows Writ's main job end to end on a throw-away repository:
// one task completes, one is refused before it is claimed, one strays out of
// its scope and is not accepted, and one survives a kill -9 of the supervising
// process in the middle of its build. It ends by verifying ledger and evidence.
//
// It needs the built program (bin/writ), git and bubblewrap, and no network.
// It exits with 0 only if everything ended as it should.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	bin := flag.String("writ", "bin/writ", "path of the writ program")
	keep := flag.Bool("keep", false, "keep the repository and the state directory")
	flag.Parse()
	if err := run(*bin, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(bin string, keep bool) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "writ-demo-")
	if err != nil {
		return err
	}
	if keep {
		defer fmt.Println("\nkept:", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }() // below the temporary directory
	}
	d := &demo{bin: bin, dir: dir, repo: filepath.Join(dir, "shop.git"), state: filepath.Join(dir, "state")}
	for _, step := range []func() error{d.findGofmt, d.sample, d.completed, d.refused, d.strayed, d.recovered, d.verified} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Println("\nAll ended as it should.")
	return nil
}
