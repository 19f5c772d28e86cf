package main

import (
	"bytes"
	"strings"
	"testing"
)

// said is a run of four packages: one passes, one fails, one has no tests, one
// dies inside a test.
const said = `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"    a_test.go:1: quiet\n"}
{"Action":"pass","Package":"m/a","Test":"TestX"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
{"Action":"output","Package":"m/b","Test":"TestY","Output":"=== RUN   TestY\n"}
{"Action":"pass","Package":"m/a"}
{"Action":"output","Package":"m/b","Test":"TestY/sub","Output":"        b_test.go:2: loud\n"}
{"Action":"output","Package":"m/b","Test":"TestY","Output":"--- FAIL: TestY (0.0s)\n"}
{"Action":"fail","Package":"m/b","Test":"TestY/sub"}
{"Action":"fail","Package":"m/b","Test":"TestY"}
{"Action":"output","Package":"m/b","Output":"FAIL\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.1s\n"}
{"Action":"fail","Package":"m/b"}
{"Action":"output","Package":"m/c","Output":"?   \tm/c\t[no test files]\n"}
{"Action":"skip","Package":"m/c"}
{"Action":"output","Package":"m/d","Test":"TestZ","Output":"panic: test timed out\n"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d\t9.0s\n"}
{"Action":"fail","Package":"m/d"}
{"ImportPath":"m/e","Action":"build-output","Output":"e.go:1: nope\n"}
{"ImportPath":"m/e","Action":"build-fail"}
{"Action":"output","Package":"m/e","Output":"FAIL\tm/e [build failed]\n"}
{"Action":"fail","Package":"m/e","FailedBuild":"m/e"}
`

func TestFollow(t *testing.T) {
	const want = "ok  \tm/a\t0.1s\n" +
		"--- FAIL: TestY (0.0s)\n        b_test.go:2: loud\nFAIL\nFAIL\tm/b\t0.1s\n" +
		"?   \tm/c\t[no test files]\n" +
		"panic: test timed out\nFAIL\tm/d\t9.0s\n" +
		"e.go:1: nope\nFAIL\tm/e [build failed]\n"
	var out bytes.Buffer
	ok, err := run(t.Context(), []string{"-follow"}, strings.NewReader(said), &out, &out)
	if err != nil || !ok || out.String() != want {
		t.Errorf("%v %v\n%s\nwant\n%s", ok, err, &out, want)
	}
	if err := follow(strings.NewReader("FAIL x"), &out); err == nil {
		t.Error("words for a stream are no error")
	}
}
