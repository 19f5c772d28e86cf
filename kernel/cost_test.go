package kernel

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestPrice_Cost: exact, rounded up once, and never more than a record holds.
func TestPrice_Cost(t *testing.T) {
	p := Price{Currency: "USD", Input: 3_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, Output: 15_000_000}
	for _, c := range []struct {
		u    Usage
		want int64
	}{
		{Usage{}, 0},
		{Usage{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000, Output: 1_000_000}, 22_050_000},
		{Usage{CacheRead: 1}, 1},                // 0.3
		{Usage{CacheRead: 2, CacheWrite: 1}, 5}, // 0.6 and 3.75 are 4.35
		{Usage{Output: MaxCost}, MaxCost},
	} {
		if got := p.Cost(c.u); got != c.want {
			t.Errorf("%+v costs %d, want %d", c.u, got, c.want)
		}
	}
	if u := (Usage{Output: 2}).Priced(&p); u.Cost != 30 || u.Price == nil {
		t.Errorf("%+v", u)
	}
	if u := (Usage{Output: 2, Cost: 1}).Priced(nil); u.Cost != 0 || u.Price != nil {
		t.Errorf("without a price: %+v", u)
	}
}

// TestPrice_CostIsExact holds it against numbers of any size.
func TestPrice_CostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price, tokens := rapid.Int64Range(0, MaxPrice), rapid.Int64Range(0, MaxCost)
		p := Price{"", price.Draw(t, "input"), price.Draw(t, "read"), price.Draw(t, "write"), price.Draw(t, "output")}
		u := Usage{Input: tokens.Draw(t, "in"), CacheRead: tokens.Draw(t, "r"), CacheWrite: tokens.Draw(t, "w"), Output: tokens.Draw(t, "out")}
		sum := new(big.Int)
		for _, part := range [][2]int64{{p.Input, u.Input}, {p.CacheRead, u.CacheRead}, {p.CacheWrite, u.CacheWrite}, {p.Output, u.Output}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		sum.Add(sum, big.NewInt(perPrice-1)).Div(sum, big.NewInt(perPrice))
		if most := big.NewInt(MaxCost); sum.Cmp(most) > 0 {
			sum = most
		}
		if got := p.Cost(u); got != sum.Int64() {
			t.Fatalf("%d, want %s", got, sum)
		}
	})
}

// TestDearer: no lower than either, and none where one is unknown.
func TestDearer(t *testing.T) {
	a, b := &Price{"USD", 1, 20, 3, 40}, &Price{"USD", 10, 2, 30, 4}
	if got := Dearer(a, b); *got != (Price{"USD", 10, 20, 30, 40}) {
		t.Errorf("%+v", got)
	}
	if Dearer(a, nil) != nil || Dearer(nil, b) != nil {
		t.Error("a price that isn't known is taken for one")
	}
}
