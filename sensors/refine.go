package sensors

// RefineSpec says what becomes of a channel's good readings.
type RefineSpec struct{}

// refine completes a channel with what happens to its good readings.
func (l *layout) refine(s *Spec, c *Channel) error {
	if s.Tank == "" {
		name := s.Name
		c.Refine = func(r *Reading) error {
			l.shared.set(name, r.Value, r.At, r.Why)
			return nil
		}
	}
	return nil
}
