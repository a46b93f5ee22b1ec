package daemon

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap, which is a few megabytes, grow to three times itself
// between collections. Go's default of twice collects so often under load that a
// tenth of the events a second is lost to it; the price is some 4 MB of memory.
const gcPercent = 200

// TuneMemory sets the collector for a process of this kind, unless the
// environment says otherwise (GOGC).
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
