package kerneltest

import "fmt"

// Choice is a seeded source of choices (SplitMix64). It isn't safe for
// concurrent use.
type Choice struct{ state uint64 }

// NewChoice returns the choices of a seed.
func NewChoice(seed int64) *Choice { return &Choice{uint64(seed)} }

func (c *Choice) next() uint64 {
	c.state += 0x9e3779b97f4a7c15
	z := c.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Intn returns a number from 0 to n-1; n must be positive.
func (c *Choice) Intn(n int) int { return int(c.next() % uint64(n)) }

// Between returns a number from least to most.
func (c *Choice) Between(least, most int64) int64 {
	return least + int64(c.next()%uint64(most-least+1))
}

// Chance is true in that many of a hundred cases.
func (c *Choice) Chance(percent int) bool { return c.Intn(100) < percent }

// UUID returns a fresh run id.
func (c *Choice) UUID() string {
	a, b := c.next(), c.next()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52&0xfff, b&0xffffffffffff)
}

// Bytes fills b.
func (c *Choice) Bytes(b []byte) {
	for i := range b {
		b[i] = byte(c.next())
	}
}

// Pick returns one of a list that isn't empty.
func Pick[T any](c *Choice, list []T) T { return list[c.Intn(len(list))] }
