package smarthttp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/writbot/writ/forge/git"
)

// BenchmarkPushes is a push to a state ref beside those of so many tasks that are done,
// as they left their objects and refs, and after maintenance.
func BenchmarkPushes(b *testing.B) {
	for _, tasks := range []int{300, 1000} {
		for _, packed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/packed=%v", tasks, packed), func(b *testing.B) {
				s := serve(b)
				tasked(b, s.dir, tasks)
				if packed {
					if err := git.Maintain(b.Context(), "", s.dir); err != nil {
						b.Fatal(err)
					}
				}
				r, err := git.Open(b.Context(), git.Endpoint{URL: s.url}, git.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = r.Close() }()
				go func() {
					for range s.ended { // nobody waits for requests here
					}
				}()
				old := git.ZeroOID
				for n := 0; b.Loop(); n++ {
					o := git.NewObjects()
					tree, err := o.Tree(nil)
					if err != nil {
						b.Fatal(err)
					}
					who := git.Person{Name: "w", Email: "w@example.com", Seconds: int64(1_700_000_000 + n)}
					spec := git.CommitSpec{Tree: tree, Author: who, Committer: who, Message: []byte("lease\n")}
					if old != git.ZeroOID {
						spec.Parents = []git.OID{old}
					}
					oid, err := o.Commit(spec, nil)
					if err != nil {
						b.Fatal(err)
					}
					if out := r.CompareAndSwap(context.Background(), []git.Command{{Ref: "refs/writ/task/100000", Old: old, New: oid}}, o.Pack()); out.Status != git.Won {
						b.Fatal(out)
					}
					old = oid
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/push")
			})
		}
	}
}
