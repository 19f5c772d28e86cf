package builder

import (
	"strings"
	"testing"

	"github.com/writbot/writ/executor/gateway"
	"github.com/writbot/writ/executor/gateway/stub"
)

// TestAgent_Mine: an agent of the kind that docs/builders.md adds has the kind's arguments
// and its provider, and its words are read.
func TestAgent_Mine(t *testing.T) {
	b := outward(t)
	b.base = baseOf(map[string]string{"calc/agent*": "#!/bin/sh\n" + `echo "$@" $MINE_API_KEY; echo x > calc/new; "$INIT" act-ask "$MINE_BASE_URL/responses" '{"model":"m","input":"x"}'; echo '{"Type":"done","Text":"All done."}'` + "\n"})
	m := &stub.Model{Key: providersKey, Turns: []stub.Turn{{Say: "hello"}}}
	_, rule := provider(t, b, "openai", m)
	o := b.build(b.job(Builder{Kind: "mine", Model: "m-1", Argv: []string{"calc/agent"}, Egress: []gateway.Rule{rule}}))
	if codes(o) != "" || o.Result.Result.Logs != "All done." || len(m.Asked()) != 1 || !strings.HasPrefix(o.Result.Stdout.Tail, "run --json --model m-1 placeholder\n200 ") {
		t.Errorf("%s: %+v, %s", codes(o), o.Result.Result, o.Result.Stdout.Tail)
	}
}
