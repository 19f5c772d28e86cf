package kernel

import "math/bits"

// Price is what an operator says that a model costs: of a million tokens of each kind, in
// millionths of a currency. A million tokens for 3 dollars are 3,000,000.
type Price struct {
	Currency   string `json:"currency"` // the operator's word
	Input      int64  `json:"input"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Output     int64  `json:"output"`
}

// MaxPrice bounds each number of a price, so that a slip of the pen is noticed. MaxCost is
// the largest number that a record holds: what costs more is recorded as that.
const (
	MaxPrice = 1_000_000_000_000
	MaxCost  = 1<<53 - 1
)

// perPrice is how many tokens a price is for.
const perPrice = 1_000_000

// Cost is what a number of tokens of each kind comes to, in millionths of the currency. It
// is rounded up, once.
func (p Price) Cost(u Usage) int64 {
	var hi, lo, carry uint64
	for _, part := range [][2]int64{{p.Input, u.Input}, {p.CacheRead, u.CacheRead}, {p.CacheWrite, u.CacheWrite}, {p.Output, u.Output}} {
		h, l := bits.Mul64(uint64(max(part[0], 0)), uint64(max(part[1], 0))) // below 2^93, and the sum below 2^95
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	if hi >= perPrice {
		return MaxCost
	}
	cost, rest := bits.Div64(hi, lo, perPrice)
	if rest > 0 && cost < MaxCost {
		cost++
	}
	return int64(min(cost, MaxCost))
}

// Dearer is the price that is no lower than either; nil where one is missing.
func Dearer(a, b *Price) *Price {
	if a == nil || b == nil {
		return nil
	}
	return &Price{a.Currency, max(a.Input, b.Input), max(a.CacheRead, b.CacheRead), max(a.CacheWrite, b.CacheWrite), max(a.Output, b.Output)}
}

// Priced is the usage with its price and cost; as it is for nil.
func (u Usage) Priced(p *Price) Usage {
	if u.Price, u.Cost = p, 0; p != nil {
		u.Cost = p.Cost(u)
	}
	return u
}
