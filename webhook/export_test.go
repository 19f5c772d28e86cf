package webhook

// InHand is how many deliveries, and bytes of bodies, are in hand now.
func (s *Server) InHand() (deliveries int, bytes int64) {
	u := s.budget.now()
	return u.deliveries, u.bytes
}

// Peak is the most that ever was in hand.
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
