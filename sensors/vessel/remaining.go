package vessel

import "time"

// RemainingMax bounds what Remaining tells. A flow so small that it would take
// longer is a meter's zero, not a consumption.
const RemainingMax = 10 * 365 * 24 * time.Hour

// Remaining tells for how long a usable content in kg lasts at a flow in kg/s. It
// is not known, and false, where nothing flows, where an argument is no finite
// number, and beyond RemainingMax: neither 0 nor for ever may be made of that. Of
// nothing usable it is 0.
func Remaining(usable, flow float64) (time.Duration, bool) {
	if !(flow > 0) || finite("usable", usable) != nil || finite("flow", flow) != nil {
		return 0, false
	}
	seconds := max(usable, 0) / flow
	if !(seconds <= RemainingMax.Seconds()) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
