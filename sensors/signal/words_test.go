package signal_test

import (
	"testing"

	"oxyd/sensors"
	"oxyd/sensors/signal"
)

// The words are the sensors package's reasons, so that its user may convert them.
func TestWordsAreReasons(t *testing.T) {
	for got, want := range map[signal.Why]sensors.Reason{
		signal.WhyNotFinite: sensors.ReasonNotFinite, signal.WhyOutOfOrder: sensors.ReasonOutOfOrder,
		signal.WhyUnconfirmed: sensors.ReasonUnconfirmed, signal.WhySpike: sensors.ReasonSpike,
		signal.WhyRate: sensors.ReasonRate, signal.WhyStuck: sensors.ReasonStuck,
		signal.WhyUnderRange: sensors.ReasonUnderRange, signal.WhyOverRange: sensors.ReasonOverRange,
		signal.WhyCounterDip: sensors.ReasonCounterDip, signal.WhyLost: sensors.ReasonLost,
	} {
		if sensors.Reason(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
