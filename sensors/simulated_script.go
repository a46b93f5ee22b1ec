package sensors

import (
	"time"

	"periph.io/x/conn/v3/physic"
)

// SimulatedKind is what an event of a simulated tank's script does.
type SimulatedKind string

// The kinds. The first group changes what the tank holds, the second what its
// sensor measures, the third whether a read gives a number at all.
const (
	SimulatedLeak   SimulatedKind = "leak"   // loses Rate an hour more, while it lasts
	SimulatedBurst  SimulatedKind = "burst"  // loses By, evenly over For; at once where For is 0
	SimulatedRefill SimulatedKind = "refill" // is filled to To, evenly over For; at once where For is 0
	SimulatedRemove SimulatedKind = "remove" // the cylinder is off: see SimulatedEvent.Reason

	SimulatedCooling SimulatedKind = "cooling" // reads By too low, and recovers with the time constant For
	SimulatedDrift   SimulatedKind = "drift"   // reads Rate more too high (below 0: low) with every hour that it lasts
	SimulatedSpike   SimulatedKind = "spike"   // reads By too high (below 0: low) for For; 0 means one step
	SimulatedStick   SimulatedKind = "stick"   // reads what it read when this began
	SimulatedNoise   SimulatedKind = "noise"   // has noise of Sigma, where the tank's own is less

	SimulatedFault  SimulatedKind = "fault"  // the read fails with Reason
	SimulatedHang   SimulatedKind = "hang"   // the read does not end before its context does
	SimulatedVanish SimulatedKind = "vanish" // nobody acknowledges: ReasonNack
)

// MaxSimulatedEvents bounds a script. More are refused.
const MaxSimulatedEvents = 64

// SimulatedEvent is one line of a simulated tank's script. The kind says which of
// Rate, To, By, Sigma and Reason it takes; the others must be zero.
type SimulatedEvent struct {
	At    time.Duration // since the tank's start
	For   time.Duration // how long it lasts; 0 means for ever, or as the kind says
	Every time.Duration // begins again after this, for ever; 0 means never
	Do    SimulatedKind

	Rate   physic.Mass // an hour. leak: > 0; drift: not 0
	To     physic.Mass // refill: the level; 0 means full
	By     physic.Mass // burst, cooling: > 0; spike: not 0
	Sigma  physic.Mass // noise: the standard deviation, > 0
	Reason Reason      // fault: must stand; remove: where it stands a read fails with it, else the tank reads empty
}
