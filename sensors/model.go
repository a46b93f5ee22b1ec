package sensors

import "fmt"

// Model is how the content of a tank follows from what its sensor measures.
type Model string

// The models of a tank.
const (
	ModelLinear Model = "linear" // the calibration gives the mass itself
)

// ModelSpec says what a tank is.
type ModelSpec struct {
	Kind Model // "" means ModelLinear
}

// unit is how people read the quantity that the model begins with.
func (m Model) unit() unit { return grams }

// model makes the model of a tank's channel.
func (l *layout) model(s *Spec) (model, error) {
	if s.Model.Kind == "" {
		s.Model.Kind = ModelLinear
	}
	switch s.Model.Kind {
	case ModelLinear:
		return linear{}, nil
	}
	return nil, fmt.Errorf("unknown model %q", s.Model.Kind)
}

// linear is the model of a sensor whose calibration gives kilograms.
type linear struct{}

func (linear) content(kg float64, _ *shared) (float64, Reason, error) { return kg, "", nil }
