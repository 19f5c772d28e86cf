package webhook

// What checks a delivery's secret is tested by itself.
type (
	Signature = bodySignature
	Token     = secretToken
)

var (
	NewSignature = newBodySignature
	NewToken     = newSecretToken
)

// InFlight is how many deliveries, and bytes of bodies, are in flight now.
func (s *Server) InFlight() (deliveries int, bytes int64) {
	u := s.budget.usage()
	return u.deliveries, u.bytes
}

// Peak is the most that ever was in flight.
func (s *Server) Peak() (deliveries int, bytes int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.budget.peak.deliveries, s.budget.peak.bytes
}

// PeakConnections is the most that any listener ever had at once.
func (s *Server) PeakConnections() (n int) {
	for _, f := range s.fronts {
		f.mu.Lock()
		n = max(n, f.peak)
		f.mu.Unlock()
	}
	return n
}
