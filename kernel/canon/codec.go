package canon

// Codec does what the functions of the same names do, and keeps what it learned
// about Go types from call to call, which at least halves the time of a small record.
// The package has no state of its own, so the caller keeps it: the zero Codec
// is ready, and one at a time may use it.
type Codec struct{ plans plans }

// Marshal is [Marshal].
func (c *Codec) Marshal(v any) ([]byte, error) {
	b, _, err := marshal(&c.plans, v)
	return b, err
}

// Hash is [Hash].
func (c *Codec) Hash(v any) (Digest, error) {
	b, err := c.Marshal(v)
	return tagged(b, err)
}

// Unmarshal is [Unmarshal].
func (c *Codec) Unmarshal(data []byte, v any, lim Limits) error {
	return unmarshal(&c.plans, newScanner(data, lim), v)
}

// UnmarshalCanonical is [UnmarshalCanonical].
func (c *Codec) UnmarshalCanonical(data []byte, v any) error {
	return unmarshal(&c.plans, newCanonicalScanner(data), v)
}
